# SPDX-License-Identifier: GPL-2.0-only
"""Run a command that can only open sockets of some address families, as RestrictAddressFamilies of systemd does:
socket_filter.py "AF_INET AF_UNIX" COMMAND..."""
import ctypes
import errno
import os
import platform
import socket
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # instructions of classic BPF
NUMBER, FIRST_ARGUMENT = 0, 16  # offsets in struct seccomp_data
ALLOW, ERRNO = 0x7fff0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint16), ("code", ctypes.c_char_p)]


def program(families):
    """Return the filter. It refuses only socket() of other families, and no other system call."""
    n = len(families)
    code = [(LOAD, 0, 0, NUMBER), (IF_EQUAL, 0, n + 2, SOCKET), (LOAD, 0, 0, FIRST_ARGUMENT)]
    code += [(IF_EQUAL, n - i, 0, family) for i, family in enumerate(families)]
    code += [(RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def main(names, *command):
    families = [int(getattr(socket, name)) for name in names.split()]
    code = program(families)
    libc = ctypes.CDLL(None, use_errno=True)
    p = Program(len(code) // 8, code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(p)):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
