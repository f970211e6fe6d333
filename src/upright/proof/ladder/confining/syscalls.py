"""The machine's name -> a seccomp filter: what code that only computes has no need to ask of the kernel.

One process without sockets and programs of its own, so that limits on one process are limits on all of it. What is
not listed is allowed; numbers that are newer than this list do not exist.
"""

from __future__ import annotations

import ctypes
import os
import struct

# Name: x86_64, aarch64; None where the machine has no such call. From 424 on all machines have the same numbers.
# Source: asm/unistd_64.h and asm-generic/unistd.h of Linux 6.1, fs/open.c and others for what they do.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes and programs
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # sockets: also of families that no network namespace parts, such as vsock
    "socket": (41, 198),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "mknod": (133, None), "mknodat": (259, 33), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # memory that no limit of a process counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # large and rarely walked parts of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_setup": (206, 0), "personality": (135, 92),
    "modify_ldt": (154, None), "lookup_dcookie": (212, 18), "syslog": (103, 116), "vhangup": (153, 58),
    "uselib": (134, None), "ustat": (136, None), "sysfs": (139, None), "nfsservctl": (180, 42),
    # what only root may, should it ever be root
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "iopl": (172, None),
    "ioperm": (173, None),
}  # fmt: skip
_CLONE: dict[str, int] = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_NEWEST = 456
"""futex_requeue, Linux 6.7: the last number that was looked at."""
_MACHINES: dict[str, tuple[int, int]] = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH of linux/audit.h, and the column above."""
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020080
_X32 = 0x40000000
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


def program(machine: str) -> bytes:
    """BPF instructions. KeyError for a machine whose numbers are not known."""
    architecture, column = _MACHINES[machine]
    denied = sorted(number for numbers in _DENIED.values() if (number := numbers[column]) is not None)
    steps = [
        _step(_LOAD, _ARCH_AT),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_ABOVE, _NEWEST, 0, 1),  # x32 as well: its numbers begin at 1 << 30
        _step(_RETURN, _ERRNO | _ENOSYS),
        # Guard: a filter cannot look into the struct of clone3; glibc falls back to clone if there is none.
        _step(_JUMP_EQUAL, _CLONE3, 0, 1),
        _step(_RETURN, _ERRNO | _ENOSYS),
        _step(_JUMP_EQUAL, _CLONE[machine], 0, 5),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_JUMP_ANY, _CLONE_NEW, 1, 0),
        _step(_JUMP_ANY, _CLONE_THREAD, 1, 0),
        _step(_RETURN, _ERRNO | _EPERM),
        _step(_RETURN, _ALLOW),
    ]
    for number in denied:
        steps += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | _EPERM)]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def install(libc: ctypes.CDLL) -> None:
    """For this thread and all that it starts, for good."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(_ENOSYS, f"no filter of system calls for {machine}")
    instructions = program(machine)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    # struct sock_fprog: a count, then a pointer, aligned as the machine does it
    head = struct.pack("HP", len(instructions) // 8, ctypes.addressof(held))
    if libc.prctl(22, 2, ctypes.c_char_p(head), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, operand)
