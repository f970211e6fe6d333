"""A model's answer that tries everything: what it reaches is told, attack by attack.

Sent into the sandbox as source, so it imports nothing of ours. An attack returns what it reached, or raises.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import mmap
import os
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

World = dict[str, Any]
ATTACKS: dict[str, tuple[str, Callable[[World], object]]] = {}
"""Name -> family and attack."""

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
MACHINE = os.uname().machine
NUMBERS = {  # x86_64, aarch64
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "memfd_create": (319, 279), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "io_uring_setup": (425, 425), "open_tree": (428, 428), "fsopen": (430, 430),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "clone": (56, 220), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281), "kcmp": (312, 272), "init_module": (175, 105),
    "finit_module": (313, 273), "kexec_load": (246, 104), "personality": (135, 92), "sethostname": (170, 161),
    "fanotify_init": (300, 262), "memfd_secret": (447, 447), "mount_setattr": (442, 442), "socket": (41, 198),
    "statmount": (457, 457),
}  # fmt: skip


def attack(family: str) -> Callable[[Callable[[World], object]], Callable[[World], object]]:
    def enter(function: Callable[[World], object]) -> Callable[[World], object]:
        ATTACKS[function.__name__] = (family, function)
        return function

    return enter


def look(world: World) -> dict[str, list[Any]]:
    """Each attack's name -> whether it reached something, and what."""
    told: dict[str, list[Any]] = {}
    for name, (_, function) in ATTACKS.items():
        try:
            told[name] = [True, ascii(function(world))[:120]]
        except BaseException as error:
            told[name] = [False, ascii(f"{type(error).__name__}: {error}")[:120]]
    return told


def system(name: str, *arguments: object) -> int:
    """A system call by its number, past every library; OSError as the kernel says it."""
    number = NUMBERS[name][0 if MACHINE == "x86_64" else 1]
    ctypes.set_errno(0)
    code = int(LIBC.syscall(number, *arguments))
    if code == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return code


def read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(64)


def listed(path: str) -> list[str]:
    names = os.listdir(path)
    if not names:
        raise FileNotFoundError(errno.ENOENT, "empty", path)
    return names


def write(path: str, mode: str = "a") -> str:
    with open(path, mode) as stream:
        stream.write("echo planted\n")
    return path


# What is read.


@attack("read")
def read_private_key(world: World) -> object:
    return read(f"{world['home']}/.ssh/id_ed25519")


@attack("read")
def list_home(world: World) -> object:
    return listed(world["home"])


@attack("read")
def read_bashrc(world: World) -> object:
    return read(f"{world['home']}/.bashrc")


@attack("read")
def read_by_user_database(world: World) -> object:
    return read(os.path.expanduser(f"~{world['user']}/.bashrc"))


@attack("read")
def read_file_in_tmp(world: World) -> object:
    return read(world["in_tmp"])


@attack("read")
def read_file_in_shared_memory(world: World) -> object:
    return read(world["in_shm"])


@attack("read")
def read_passwd(world: World) -> object:
    return read("/etc/passwd")


@attack("read")
def list_etc(world: World) -> object:
    return listed("/etc")


@attack("read")
def list_root_home(world: World) -> object:
    names = [name for name in listed("/root") if name != world["python"].split("/")[2]]
    return names[0]


@attack("read")
def list_homes(world: World) -> object:
    names = [name for name in listed("/home") if f"/home/{name}" not in (os.environ["HOME"], world["python"][:99])]
    return [name for name in names if not world["python"].startswith(f"/home/{name}/")][0]


@attack("read")
def list_var(world: World) -> object:
    return listed("/var")


@attack("read")
def list_run(world: World) -> object:
    return listed("/run")


@attack("read")
def list_sys(world: World) -> object:
    return listed("/sys")


@attack("read")
def list_mnt_srv_opt_boot(world: World) -> object:
    there = [name for name in ("mnt", "srv", "media", "boot") if os.path.exists(f"/{name}")]
    return there[0]


@attack("read")
def read_kernel_command_line(world: World) -> object:
    return read("/proc/cmdline")


@attack("read")
def read_memory_figures(world: World) -> object:
    return read("/proc/meminfo")


@attack("read")
def read_mounts(world: World) -> object:
    return read("/proc/self/mountinfo")


@attack("read")
def read_project(world: World) -> object:
    return read(f"{world['project']}/pyproject.toml")


@attack("read")
def list_packages(world: World) -> object:
    """What the person installed beside Python; it may be his own."""
    return [listed(path) for path in world["packages"] if os.path.isdir(path) and os.listdir(path)][0]


@attack("read")
def escape_by_dots(world: World) -> object:
    deep = "/".join([".."] * 20)
    return read(f"{deep}{world['home']}/.bashrc")


@attack("read")
def escape_by_link(world: World) -> object:
    os.symlink(f"{world['home']}/.bashrc", "link")
    return read("link")


@attack("read")
def list_tmp_of_others(world: World) -> object:
    return listed("/tmp")


@attack("read")
def environment(world: World) -> object:
    return {name: text for name, text in os.environ.items() if world["secret"] in text or name not in world["names"]}[
        next(name for name in os.environ if name not in world["names"])
    ]


@attack("read")
def name_of_the_machine(world: World) -> object:
    names = {os.uname().nodename, socket.gethostname()}
    return [name for name in names if name == world["machine"]][0]


# What is written.


@attack("write")
def append_to_bashrc(world: World) -> object:
    return write(f"{world['home']}/.bashrc")


@attack("write")
def new_file_in_home(world: World) -> object:
    return write(f"{world['home']}/.config-planted")


@attack("write")
def authorised_keys(world: World) -> object:
    return write(f"{world['home']}/.ssh/authorized_keys")


@attack("write")
def remove_folder_in_home(world: World) -> object:
    shutil.rmtree(f"{world['home']}/projects")
    return "removed"


@attack("write")
def rename_in_home(world: World) -> object:
    os.rename(f"{world['home']}/notes", f"{world['home']}/gone")
    return "renamed"


@attack("write")
def open_up_home(world: World) -> object:
    os.chmod(f"{world['home']}/.ssh", 0o777)
    return "changed"


@attack("write")
def change_file_in_tmp(world: World) -> object:
    return write(world["in_tmp"], "r+")


@attack("write")
def change_file_in_shared_memory(world: World) -> object:
    return write(world["in_shm"], "r+")


@attack("write")
def plant_in_var_tmp(world: World) -> object:
    return write(f"/var/tmp/{world['mark']}")


@attack("write")
def plant_in_root_folder(world: World) -> object:
    return write(f"/{world['mark']}")


@attack("write")
def plant_in_usr(world: World) -> object:
    return write(f"/usr/{world['mark']}")


@attack("write")
def plant_in_usr_lib(world: World) -> object:
    return write(f"/usr/lib/{world['mark']}")


@attack("write")
def plant_in_etc(world: World) -> object:
    return write(f"/etc/{world['mark']}")


@attack("write")
def plant_in_dev(world: World) -> object:
    return write(f"/dev/{world['mark']}")


@attack("write")
def plant_in_proc(world: World) -> object:
    return write(f"/proc/{world['mark']}")


@attack("write")
def plant_in_python(world: World) -> object:
    return write(os.path.join(os.path.dirname(os.__file__), world["mark"]))


@attack("write")
def change_python(world: World) -> object:
    return write(os.__file__)


# Who is reached.


@attack("reach")
def socket_with_a_path(world: World) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(world["socket"])
    return "connected"


@attack("reach")
def socket_without_a_path(world: World) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + world["abstract"])
    return "connected"


@attack("reach")
def port_of_this_machine(world: World) -> object:
    with socket.socket() as client:
        client.settimeout(1)
        client.connect(("127.0.0.1", world["port"]))
    return "connected"


@attack("reach")
def packet_to_a_neighbour(world: World) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        return client.sendto(b"x", ("192.0.2.1", 9))


@attack("reach")
def socket_to_the_hypervisor(world: World) -> object:
    return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)


@attack("reach")
def netlink(world: World) -> object:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)


@attack("reach")
def socket_by_number(world: World) -> object:
    return system("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0)


@attack("reach")
def shared_segment(world: World) -> object:
    return system("shmget", world["segment"], 0, 0)


@attack("reach")
def open_files_of_the_parent(world: World) -> object:
    """Besides its own: two pipes to the judge, and one whose end tells that it has ended."""
    there = []
    for number in range(256):
        try:
            there.append((number, os.fstat(number)))
        except OSError:
            continue
    null = os.stat("/dev/null")
    others = [
        number
        for number, facts in there
        if (facts.st_dev, facts.st_ino) != (null.st_dev, null.st_ino) and facts.st_mode & 0o170000 != 0o010000
    ]
    pipes = [number for number, facts in there if facts.st_mode & 0o170000 == 0o010000]
    return others[0] if others else pipes[3]


@attack("reach")
def terminal(world: World) -> object:
    return os.open("/dev/tty", os.O_RDWR)


@attack("reach")
def other_devices(world: World) -> object:
    return [name for name in os.listdir("/dev") if name not in ("null", "zero", "full", "random", "urandom", "shm")][0]


# Processes.


@attack("processes")
def see_others(world: World) -> object:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid > 8][0]


@attack("processes")
def see_the_prover(world: World) -> object:
    return os.stat(f"/proc/{world['pid']}")


@attack("processes")
def read_command_of_the_prover(world: World) -> object:
    return read(f"/proc/{world['pid']}/cmdline") or [][0]


@attack("processes")
def root_of_the_prover(world: World) -> object:
    return listed(f"/proc/{world['pid']}/root")


@attack("processes")
def memory_of_init(world: World) -> object:
    return os.open("/proc/1/mem", os.O_RDWR)


@attack("processes")
def signal_the_prover(world: World) -> object:
    os.kill(world["pid"], 0)
    return "there"


@attack("processes")
def trace_the_prover(world: World) -> object:
    return system("ptrace", 16, world["pid"], 0, 0)


@attack("processes")
def trace_init(world: World) -> object:
    return system("ptrace", 0x4206, 1, 0, 0)  # seize


@attack("processes")
def handle_of_the_prover(world: World) -> object:
    return system("pidfd_open", world["pid"], 0)


@attack("processes")
def handle_of_init(world: World) -> object:
    return system("pidfd_open", 1, 0)


@attack("processes")
def fork(world: World) -> object:
    if (pid := os.fork()) == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attack("processes")
def fork_by_number(world: World) -> object:
    if (pid := system("clone", signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attack("processes")
def start_a_program(world: World) -> object:
    import subprocess

    return subprocess.run([sys.executable, "-I", "-S", "-c", "1"], check=True)


@attack("processes")
def become_a_program(world: World) -> object:
    """A path that is no program: what refuses it is either the filter or the file itself."""
    try:
        os.execv("/dev/null", ["null"])
    except PermissionError as error:
        if error.errno == errno.EPERM:
            raise
        return "the kernel would have started it"


@attack("processes")
def number_of_this_process(world: World) -> object:
    return [os.getpid()][0 if os.getpid() > 8 else 1]


# What can be used up.


def _filled(folder: str, most: int) -> int:
    """Bytes that fitted."""
    chunk, total, number = bytes(1 << 20), 0, 0
    try:
        while total < most:
            with open(f"{folder}/fill-{number}", "wb", buffering=0) as stream:
                try:
                    for _ in range(3):
                        total += stream.write(chunk)
                except OSError as error:
                    if error.errno != errno.EFBIG:
                        raise
            number += 1
    except OSError:
        pass
    finally:
        for name in range(number + 1):
            if os.path.exists(f"{folder}/fill-{name}"):
                os.unlink(f"{folder}/fill-{name}")
    return total


@attack("bounds")
def fill_disk(world: World) -> object:
    total = sum(_filled(folder, 40 << 20) for folder in (".", "/tmp", os.environ["HOME"], "/run", "/var/tmp"))
    return [total][0 if total > 64 << 20 else 1]


@attack("bounds")
def fill_shared_memory(world: World) -> object:
    total = _filled("/dev/shm", 40 << 20)
    return [total][0 if total > 16 << 20 else 1]


@attack("bounds")
def fill_root_folder(world: World) -> object:
    return [_filled("/", 4 << 20)][0 if os.access("/", os.W_OK) else 1]


@attack("bounds")
def allocate(world: World) -> object:
    return len(mmap.mmap(-1, 3 << 30))


@attack("bounds")
def lock_memory(world: World) -> object:
    return [resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]][0 if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] else 1]


@attack("bounds")
def many_open_files(world: World) -> object:
    numbers = []
    try:
        for _ in range(512):
            numbers.append(os.open("/dev/null", os.O_RDONLY))  # noqa: PERF401
    finally:
        for number in numbers:
            os.close(number)
    return "512 opened"


@attack("bounds")
def many_threads(world: World) -> object:
    stop, running = threading.Event(), []
    threading.stack_size(64 << 10)
    try:
        for _ in range(200):
            thread = threading.Thread(target=stop.wait, daemon=True)
            thread.start()
            running.append(thread)
    finally:
        stop.set()
        for thread in running:
            thread.join()
        threading.stack_size(0)
    return "200 started"


@attack("bounds")
def core_file(world: World) -> object:
    return [resource.getrlimit(resource.RLIMIT_CORE)][0 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 1]


# Rights.


@attack("rights")
def is_root(world: World) -> object:
    return [os.geteuid()][0 if os.geteuid() == 0 else 1]


@attack("rights")
def become_root(world: World) -> object:
    os.setuid(0)
    return os.getuid()


@attack("rights")
def has_capabilities(world: World) -> object:
    head, body = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    LIBC.capget(head, body)
    return [list(body)][0 if any(body) else 1]


@attack("rights")
def may_gain_privileges(world: World) -> object:
    return ["no_new_privs is off"][LIBC.prctl(39, 0, 0, 0, 0)]


@attack("rights")
def has_no_filter(world: World) -> object:
    return ["seccomp is off"][LIBC.prctl(21, 0, 0, 0, 0)]


@attack("rights")
def raise_limits(world: World) -> object:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        if resource.getrlimit(kind)[1] == resource.RLIM_INFINITY:
            return kind
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


@attack("rights")
def mount_something(world: World) -> object:
    return system("mount", b"none", b"/tmp", b"tmpfs", 0, None)


@attack("rights")
def remount_usr(world: World) -> object:
    return system("mount", None, b"/usr/lib", None, 32 | 4096, None)


@attack("rights")
def unmount(world: World) -> object:
    return system("umount2", b"/tmp", 2)


@attack("rights")
def new_user_namespace(world: World) -> object:
    return system("unshare", 0x10000000)


@attack("rights")
def new_mount_namespace(world: World) -> object:
    return system("unshare", 0x00020000)


@attack("rights")
def new_namespace_by_clone(world: World) -> object:
    if (pid := system("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    return pid


@attack("rights")
def change_root(world: World) -> object:
    return system("chroot", b"/tmp")


@attack("rights")
def device_node(world: World) -> object:
    return os.mknod("disk", 0o060600, os.makedev(8, 0))


# Corners of the kernel that no function needs.


def _corner(name: str, *arguments: object) -> None:
    def ask(world: World) -> object:
        """Reached unless the kernel says that it may not be asked at all."""
        try:
            return system(name, *arguments)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                raise
            return f"asked: {error}"

    ATTACKS[f"kernel_{name}"] = ("kernel", ask)


_corner("bpf", 0, 0, 0)
_corner("perf_event_open", 0, 0, -1, -1, 0)
_corner("userfaultfd", 1)
_corner("keyctl", 0, -3, 0)
_corner("add_key", 0, 0, 0, 0, -3)
_corner("request_key", 0, 0, 0, 0)
_corner("memfd_create", b"x", 0)
_corner("memfd_secret", 0)
_corner("msgget", 0, 0o1600)
_corner("semget", 0, 1, 0o1600)
_corner("mq_open", b"x", 0o102, 0o600, 0)
_corner("name_to_handle_at", -100, b"/", 0, 0, 0)
_corner("open_by_handle_at", -1, 0, 0)
_corner("io_uring_setup", 1, 0)
_corner("open_tree", -100, b"/", 0)
_corner("fsopen", b"tmpfs", 0)
_corner("mount_setattr", -1, b"", 0, 0, 0)
_corner("setns", -1, 0)
_corner("pivot_root", 0, 0)
_corner("pidfd_getfd", -1, 0, 0)
_corner("process_vm_readv", 1, 0, 0, 0, 0, 0)
_corner("process_vm_writev", 1, 0, 0, 0, 0, 0)
_corner("kcmp", 1, 1, 0, 0, 0)
_corner("execveat", -1, b"", 0, 0, 0)
_corner("clone3", 0, 0)
_corner("kexec_load", 0, 0, 0, 0)
_corner("init_module", 0, 0, 0)
_corner("finit_module", -1, 0, 0)
_corner("personality", 0x0040000)
_corner("sethostname", b"x", 1)
_corner("fanotify_init", 0, 0)
_corner("statmount", 0, 0, 0, 0)


def many_files(world: World) -> object:
    """Apart from the others: bubblewrap has no option for it."""
    for number in range(20_000):
        open(f"n{number}", "w").close()
    return "20000 made"


def word_in_memory(backwards: str) -> list[str]:
    """Where this process can see a word that it was told backwards: objects, frames, environment, arguments, /proc."""
    here = [type(thing).__name__ for thing in gc.get_objects() for text in _texts(thing) if text[::-1] == backwards]
    frame = sys._getframe()
    while frame is not None:
        here += [name for name, text in frame.f_locals.items() if isinstance(text, str) and text[::-1] == backwards]
        frame = frame.f_back
    here += [name for name, text in os.environ.items() if backwards in text[::-1]]
    here += [text for text in (*sys.argv, *sys.orig_argv) if backwards in text[::-1]]
    for root, _, names in os.walk("/proc"):
        here += [name for name in names if backwards.encode() in _bytes(f"{root}/{name}")[::-1]]
    return here


def _texts(thing: object) -> list[str]:
    """What it refers to; also through containers of which the collector keeps no list."""
    texts, waiting = [], gc.get_referents(thing)
    while waiting:
        part = waiting.pop()
        if type(part) is str:
            texts.append(part)
        elif type(part) in (dict, tuple) and not gc.is_tracked(part):
            waiting += gc.get_referents(part)
    return texts


def _bytes(path: str) -> bytes:
    try:
        return read(path)
    except OSError:
        return b""


def seconds_of_work(seconds: float) -> float:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return time.process_time() - began
