"""What a candidate's process may ask of the kernel: a list of system calls, as a seccomp filter; all else is refused.

Enough for one thread that computes, reads files and waits. Not among them, whoever looks for a gap: processes and
threads (fork, clone, execve), signals to anybody (kill, tgkill, fcntl's F_SETOWN), sockets but pairs of its own, every
way to make, change or name a file, memory of others (ptrace, process_vm_*), limits of others (prlimit64), io_uring.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# machine -> (audit architecture, numbers from which on they belong to another table)
ARCHITECTURES = {"x86_64": (0xC000003E, 0x40000000), "aarch64": (0xC00000B7, None)}
# name -> number on x86_64, on aarch64 (None: the kernel has none there)
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # Files that are open, or are opened for reading (OPENS below).
    "read": (0, 63), "pread64": (17, 67), "readv": (19, 65), "write": (1, 64), "writev": (20, 66), "close": (3, 57),
    "lseek": (8, 62), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    "stat": (4, None), "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291),
    "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    # Memory.
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233),
    "brk": (12, 214),
    # Its own signal handlers; nobody to send a signal to.
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    # Time, waiting, chance.
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "sched_yield": (24, 124), "getrandom": (318, 278),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "futex": (202, 98),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "eventfd2": (290, 19),
    # An event loop's wake-up pair.
    "socketpair": (53, 199), "sendto": (44, 206), "recvfrom": (45, 207),
    # About itself and the machine.
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160), "sysinfo": (99, 179), "times": (100, 153),
    "getrlimit": (97, 163), "getrusage": (98, 165), "sched_getaffinity": (204, 123), "rseq": (334, 293),
    # Its end.
    "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
# Allowed for some arguments: name -> (numbers, which argument, how it is judged).
OPEN, OPENAT, FCNTL, IOCTL = (2, None), (257, 56), (72, 25), (16, 29)
CLONE3 = (435, 435)
# Opening must not write: O_WRONLY | O_RDWR | O_CREAT | O_TRUNC; O_TMPFILE needs one of the first two.
WRITES = 0o3 | 0o100 | 0o1000
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. F_SETOWN with O_ASYNC would send any signal to anybody.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
# FIOCLEX, FIONCLEX, FIONBIO.
IOCTL_COMMANDS = (0x5451, 0x5450, 0x5421)

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, AND, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # BPF operations
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_ARGUMENTS = 0, 4, 16

Instruction = tuple[int, int, int, int]


def program(machine: str) -> list[Instruction]:
    """The filter as BPF instructions (operation, jump if true, jump if false, operand)."""
    architecture, second_table = ARCHITECTURES[machine]
    column = list(ARCHITECTURES).index(machine)
    lines: list[Instruction] = [
        (LOAD, 0, 0, OFFSET_ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, OFFSET_NUMBER),
    ]
    if second_table is not None:
        lines += [(JUMP_AT_LEAST, 0, 1, second_table), _refuse(errno.ENOSYS)]
    for numbers in ALLOWED.values():
        lines += _when(numbers[column], [(RETURN, 0, 0, ALLOW)])
    lines += _when(OPEN[column], _opens(1))
    lines += _when(OPENAT[column], _opens(2))
    lines += _when(FCNTL[column], _one_of(1, FCNTL_COMMANDS, errno.EPERM))
    lines += _when(IOCTL[column], _one_of(1, IOCTL_COMMANDS, errno.ENOTTY))
    # The C library then tries clone, whose refusal it can report.
    lines += _when(CLONE3[column], [_refuse(errno.ENOSYS)])
    return [*lines, _refuse(errno.EPERM)]


def _when(number: int | None, then: list[Instruction]) -> list[Instruction]:
    """`then`, which returns, for the system call of this number."""
    return [] if number is None else [(JUMP_EQUAL, 0, len(then), number), *then]


def _refuse(error: int) -> Instruction:
    return (RETURN, 0, 0, ERRNO | error)


def _opens(argument: int) -> list[Instruction]:
    load = (LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * argument)
    return [load, (AND, 0, 0, WRITES), (JUMP_EQUAL, 0, 1, 0), (RETURN, 0, 0, ALLOW), _refuse(errno.EPERM)]


def _one_of(argument: int, values: tuple[int, ...], error: int) -> list[Instruction]:
    load = (LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * argument)
    tests: list[Instruction] = [(JUMP_EQUAL, len(values) - k, 0, value) for k, value in enumerate(values)]
    return [load, *tests, _refuse(error), (RETURN, 0, 0, ALLOW)]


class Filter:
    """The filter of this machine, ready to be put on a process."""

    def __init__(self) -> None:
        code = b"".join(struct.pack("HBBI", *line) for line in program(platform.machine()))
        self._code = ctypes.create_string_buffer(code, len(code))
        address = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(self._code))
        self._header = ctypes.create_string_buffer(address, 16)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def apply(self) -> None:
        """Puts the filter on this process; there is no way back.

        Raises:
            OSError: the kernel does not take it.
        """
        self.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._header)

    def prctl(self, option: int, value: int, more: object = 0) -> None:
        """One prctl call.

        Raises:
            OSError: it failed.
        """
        if self._libc.prctl(option, value, more, 0, 0):
            number = ctypes.get_errno()
            raise OSError(number, f"prctl({option}): {os.strerror(number)}")
