"""Remove every right from this process that reading a document does not need.

A hostile file that exploits a parser can then neither reach the network nor start a program, and it
can use only a limited amount of memory and time.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from typing import Any

# The process and its libraries take some 60 MiB; the largest text it may return takes 150 more.
_MAX_MEMORY = 512 * 1024 * 1024
_MAX_CPU_SECONDS = 30
_MAX_FILES = 32

# Audit events refused by the interpreter, on every system.
_REFUSED = (
    *("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.kill"),
    *("os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink", "ctypes."),
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# System calls refused by Linux, by their number on each architecture: sockets, new programs,
# reading or signalling other processes, removing and renaming files.
_X86_64 = (
    0xC000003E,
    *(41, 42, 43, 44, 46, 49, 50, 53, 288, 307, 57, 58, 59, 322, 101, 310, 311, 62, 200, 234, 425),
    *(76, 77, 82, 83, 84, 86, 87, 88, 263, 264, 265, 266, 316),
)
_AARCH64 = (
    0xC00000B7,
    *(198, 199, 200, 201, 202, 203, 206, 211, 242, 269, 221, 281, 117, 270, 271, 129, 130, 131),
    *(425, 45, 46, 34, 35, 36, 37, 38, 276),
)
_FILTERS = {"x86_64": _X86_64, "aarch64": _AARCH64}

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _ALLOW, _FAIL = 0x80000000, 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT = 0, 4
# From this number on, x86-64 has a second set of numbers for the same calls.
_X32_NUMBERS = 0x40000000


def confine() -> None:
    """Confine this process. This cannot be undone."""
    _limit(resource.RLIMIT_CPU, _MAX_CPU_SECONDS)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _MAX_FILES)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, _MAX_MEMORY)
        _refuse_calls()
    sys.addaudithook(_audit)


def _limit(what: int, most: int) -> None:
    resource.setrlimit(what, (most, most))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    is_writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS
    if is_writing or event.startswith(_REFUSED):
        raise PermissionError(f"The document reader may not call {event}.")


def _refuse_calls() -> None:
    """Install the filter in the kernel.

    If the kernel supports it but rejects it, nothing is read.
    """
    known = _FILTERS.get(platform.machine())
    if known is None:
        return
    program = _program(known[0], known[1:])
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HL", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "The kernel rejected the filter of system calls.")


def _program(machine: int, refused: tuple[int, ...]) -> bytes:
    """Return the filter program: calls of another architecture kill the process, others fail."""
    steps = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, len(refused) + 1, 0, _X32_NUMBERS),
    ]
    # Each step jumps over the following ones and over the one that allows the call.
    steps += [(_EQUAL, len(refused) - place, 0, number) for place, number in enumerate(refused)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _FAIL | errno.EPERM)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
