"""Runs a program, and what it starts, as on a kernel without prctl(PR_GET_AUXV).

That call tells of the real process where valgrind shows another one: what the
program finds by it is not mapped there, and it ends with SIGSEGV.
"""

import ctypes
import os
import platform
import struct
import sys

PRCTL = 157
PR_GET_AUXV = 0x41555856
AUDIT_ARCH_X86_64 = 0xC000003E
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
EINVAL = 22

# Classic BPF over struct seccomp_data: number of the call, architecture, first argument.
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
FAIL, ALLOW = 0x00050000 | EINVAL, 0x7FFF0000
FILTER = [
    (LOAD, 0, 0, 4),
    (EQUAL, 0, 5, AUDIT_ARCH_X86_64),
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 3, PRCTL),
    (LOAD, 0, 0, 16),
    (EQUAL, 0, 1, PR_GET_AUXV),
    (RETURN, 0, 0, FAIL),
    (RETURN, 0, 0, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install():
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in FILTER))
    program = Program(len(FILTER), ctypes.cast(code, ctypes.c_void_p))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in [
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ]:
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if platform.machine() == "x86_64":
    install()
os.execv(sys.argv[1], sys.argv[1:])
