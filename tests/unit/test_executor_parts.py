"""Frames, the table of system calls, and the limit on a check's own time."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.executor import system_calls
from harness.executor.frames import BadFrame, Frame, FrameBuffer, Kind
from harness.scorer.evaluators.bounded import TookTooLong, bounded

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
CONDITIONAL = {
    "open": system_calls.OPEN,
    "openat": system_calls.OPENAT,
    "fcntl": system_calls.FCNTL,
    "ioctl": system_calls.IOCTL,
    "clone3": system_calls.CLONE3,
}
# What must not be on the list, by name: each is a way to another process, to the outside, or to the disk.
NEVER = (
    "fork", "vfork", "clone", "execve", "execveat", "kill", "tkill", "tgkill", "rt_sigqueueinfo",
    "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal", "pidfd_getfd", "ptrace", "process_vm_readv",
    "process_vm_writev", "kcmp", "socket", "connect", "bind", "listen", "accept", "accept4", "sendmsg", "sendmmsg",
    "recvmsg", "mkdir", "mkdirat", "mknod", "mknodat", "creat", "unlink", "unlinkat", "rename", "renameat",
    "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "ftruncate", "chmod", "fchmod", "fchmodat",
    "chown", "fchown", "fchownat", "utimensat", "openat2", "memfd_create", "mount", "umount2", "setns", "unshare",
    "prctl", "seccomp", "prlimit64", "setrlimit", "setpriority", "io_uring_setup", "bpf", "userfaultfd",
    "perf_event_open", "keyctl", "add_key", "request_key", "timer_create", "mq_open", "shmget", "semget", "msgget",
    "personality", "setsid", "setpgid", "sched_setaffinity",
)  # fmt: skip
filters = pytest.mark.parametrize("machine", list(system_calls.ARCHITECTURES))


@given(st.lists(st.tuples(st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=50))), st.data())
def test_frames_come_whole_however_the_stream_is_cut(
    frames: list[tuple[Kind, int, bytes]], data: st.DataObject
) -> None:
    sent = [Frame(*frame) for frame in frames]
    stream = b"".join(frame.pack() for frame in sent)
    buffer, received = FrameBuffer(50), list[Frame]()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        received += buffer.feed(stream[:cut])
        stream = stream[cut:]
    assert received == sent


@pytest.mark.parametrize(
    "content", [b"?" + bytes(8), b"R" + bytes(4) + b"\xff" * 4, Frame(Kind.CALL, 1, b"x" * 9).pack()]
)
def test_frames_that_are_unknown_or_too_large_are_refused(content: bytes) -> None:
    with pytest.raises(BadFrame):
        FrameBuffer(8).feed(content)


def known_numbers(machine: str) -> dict[str, int]:
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"no {header} (package linux-libc-dev)")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    return {name: int(number) for name, number in found}


@filters
def test_every_number_is_that_of_its_name(machine: str) -> None:
    column = list(system_calls.ARCHITECTURES).index(machine)
    known = known_numbers(machine)
    # The generic header calls it by the name of its 64 bit form.
    other_names = {"newfstatat": "fstatat"}
    for name, numbers in {**system_calls.ALLOWED, **CONDITIONAL}.items():
        expected = known.get(name, known.get(other_names.get(name, "")))
        assert numbers[column] in (expected, None), name


@filters
def test_nothing_dangerous_is_on_the_list(machine: str) -> None:
    column = list(system_calls.ARCHITECTURES).index(machine)
    allowed = {numbers[column] for numbers in system_calls.ALLOWED.values()}
    known = known_numbers(machine)
    assert len(set(NEVER) & known.keys()) > 60
    assert not {name for name in NEVER if known.get(name, -1) in allowed}
    assert not set(NEVER) & system_calls.ALLOWED.keys()


@filters
def test_the_filter_jumps_inside_itself_and_ends_in_a_refusal(machine: str) -> None:
    lines = system_calls.program(machine)
    assert len(lines) < 4096
    for place, (_, if_true, if_false, _) in enumerate(lines):
        assert max(if_true, if_false) < 256
        assert place + 1 + max(if_true, if_false) < len(lines) or (if_true, if_false) == (0, 0)
    assert lines[-1] == (system_calls.RETURN, 0, 0, system_calls.ERRNO | 1)


def run(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter says to one system call: a small BPF machine."""
    words = {
        system_calls.OFFSET_NUMBER: number,
        system_calls.OFFSET_ARCHITECTURE: architecture or system_calls.ARCHITECTURES[machine][0],
    }
    words |= {system_calls.OFFSET_ARGUMENTS + 8 * k: value for k, value in enumerate(arguments)}
    value, place, lines = 0, 0, system_calls.program(machine)
    while True:
        operation, if_true, if_false, operand = lines[place]
        place += 1
        match operation:
            case system_calls.LOAD:
                value = words.get(operand, 0)
            case system_calls.AND:
                value &= operand
            case system_calls.JUMP_EQUAL:
                place += if_true if value == operand else if_false
            case system_calls.JUMP_AT_LEAST:
                place += if_true if value >= operand else if_false
            case system_calls.RETURN:
                return operand


@filters
def test_opening_is_for_reading_only(machine: str) -> None:
    column = list(system_calls.ARCHITECTURES).index(machine)
    openat = system_calls.OPENAT[column] or 0
    refused = system_calls.ERRNO | 1
    # O_RDONLY | O_CLOEXEC; then each way to write.
    assert run(machine, openat, 0, 0, 0o2000000) == system_calls.ALLOW
    assert {run(machine, openat, 0, 0, flags) for flags in (1, 2, 3, 0o100, 0o1000, 0o2000001)} == {refused}


@filters
def test_descriptors_cannot_be_made_to_send_signals(machine: str) -> None:
    fcntl = system_calls.FCNTL[list(system_calls.ARCHITECTURES).index(machine)] or 0
    assert run(machine, fcntl, 3, 1) == system_calls.ALLOW
    # F_SETLK, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY.
    assert {run(machine, fcntl, 3, command) for command in (6, 8, 10, 15, 1024, 1026)} == {system_calls.ERRNO | 1}


@filters
def test_other_tables_of_calls_are_shut(machine: str) -> None:
    read = system_calls.ALLOWED["read"][list(system_calls.ARCHITECTURES).index(machine)] or 0
    assert run(machine, read) == system_calls.ALLOW
    assert run(machine, read, architecture=0x40000003) == system_calls.KILL_PROCESS
    assert run(machine, read | 0x40000000) != system_calls.ALLOW


def spin() -> None:
    while True:
        pass


def test_a_check_that_computes_for_ever_is_broken_off() -> None:
    start = time.thread_time()
    with pytest.raises(TookTooLong), bounded(0.3):
        spin()
    assert time.thread_time() - start < 5


def test_no_except_exception_holds_it_up() -> None:
    def stubborn() -> None:
        while True:
            with suppress(Exception):
                spin()

    with pytest.raises(TookTooLong), bounded(0.2):
        stubborn()


def test_waiting_costs_nothing_and_work_beside_it_does_not_count() -> None:
    stop = threading.Event()
    beside = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    beside.start()
    try:
        with bounded(0.3):
            time.sleep(1)
    finally:
        stop.set()
        beside.join()


def test_what_comes_after_the_block_is_not_hit() -> None:
    with bounded(0.2):
        pass
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        pass
