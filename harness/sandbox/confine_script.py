"""Runs inside every untrusted container: narrows what system calls can reach, then becomes the given command.

Docker's own seccomp profile stays in force; this one is put on top. It is needed because engines before 23.0 let a
container open AF_VSOCK sockets, which no network namespace holds back: on a virtual machine they reach its hypervisor.
Only the socket families of ordinary programs are left, io_uring is shut (it opens sockets past seccomp), and so are the
other system call tables of the processor (they have calls of their own for sockets). Standard library only.

    python3 -I -S confine_script.py <command> [argument ...]
"""

import ctypes
import os
import platform
import struct
import sys

ALLOWED_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
# machine -> (audit architecture, socket, socketpair, bit of a second table under the same architecture)
TABLES = {"x86_64": (0xC000003E, 41, 53, 0x40000000), "aarch64": (0xC00000B7, 198, 199, 0)}
IO_URING = (425, 426, 427)

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF operations
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ENOSYS, EAFNOSUPPORT = 38, 97
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_FIRST_ARGUMENT = 0, 4, 16


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as BPF instructions (operation, jump if true, jump if false, operand)."""
    architecture, socket_call, pair_call, second_table = TABLES[machine]
    families = [(JUMP_EQUAL, len(ALLOWED_FAMILIES) - k, 0, family) for k, family in enumerate(ALLOWED_FAMILIES)]
    check_family = [
        (LOAD, 0, 0, OFFSET_FIRST_ARGUMENT),
        *families,
        (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]
    refuse = (RETURN, 0, 0, ERRNO | ENOSYS)
    head = [(LOAD, 0, 0, OFFSET_ARCHITECTURE), (JUMP_EQUAL, 1, 0, architecture), refuse, (LOAD, 0, 0, OFFSET_NUMBER)]
    if second_table:
        head += [(JUMP_AT_LEAST, 0, 1, second_table), refuse]
    for number in IO_URING:
        head += [(JUMP_EQUAL, 0, 1, number), refuse]
    sockets = [(JUMP_EQUAL, 2, 0, socket_call), (JUMP_EQUAL, 1, 0, pair_call), (RETURN, 0, 0, ALLOW)]
    return [*head, *sockets, *check_family]


def confine() -> None:
    """Puts the filter on this process and all that it starts; there is no way back."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program(platform.machine()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot install the seccomp filter")


if __name__ == "__main__":
    confine()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
