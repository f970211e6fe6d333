"""Fixtures that every test may use: the command as a user has it, a real engine, a tiny model, an sshd, an image."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from tests import command
from tests.ports import free_port
from tests.programs import made_by
from tests.selection import leaves_nothing

ROOT = Path(__file__).parent.parent
SHARED = {path.stem for path in (ROOT / "tests").iterdir()} - {
    "__init__",
    "__pycache__",
    "command",
    "conftest",
    "ports",
    "programs",
    "selection",
}
pytest.register_assert_rewrite(*(f"tests.{name}" for name in SHARED))  # their asserts tell values too
TINY_ASSETS = ROOT / "tests/assets/tiny-kimi"
TINY_MODEL = TINY_ASSETS / "tiny-kimi-q8_0.gguf"
TINY_DRAFT = TINY_ASSETS / "tiny-kimi-draft-q8_0.gguf"
TINY_FOLDER = TINY_ASSETS / "safetensors"
hypothesis.settings.register_profile("house", deadline=None, max_examples=60)  # busy machines are not bugs
hypothesis.settings.load_profile("house")
os.environ.setdefault("LLAMA_ARG_THREADS", "1")  # the tiny model needs no more, and threads that spin starve the others
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, where no Ctrl-C would reach a test
    signal.signal(signal.SIGINT, signal.default_int_handler)
Upright = Callable[..., "subprocess.CompletedProcess[str]"]
_CARRIED = (
    "PATH",
    "HOME",
    "TMPDIR",
    "TZ",
    "HF_HOME",
    "HF_HUB_CACHE",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "VIRTUAL_ENV",
)


def sshd_environment(**more: str | Path) -> str:
    """sshd's own setting for what a session has: as here, where HOME need not be what the list of users says."""
    carried = {name: os.environ[name] for name in _CARRIED if name in os.environ}
    return "SetEnv " + " ".join(f'"{name}={setting}"' for name, setting in (carried | more).items())


def user_name() -> str:
    """Whose processes these are; USER and LOGNAME may say anything."""
    return pwd.getpwuid(os.getuid()).pw_name


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if pluginmanager.is_blocked("cacheprovider"):  # without it nobody knows the option that pyproject.toml sets
        parser.addini("cache_dir", "where the cache would be, if there were one")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `-m` leaves nothing of is not imported; a file that somebody names is."""
    named = any(Path(arg.partition("::")[0]).absolute() == collection_path for arg in config.args)
    if named or not collection_path.match("test_*.py"):
        return None
    return leaves_nothing(config.option.markexpr, collection_path) or None


@pytest.fixture
def upright(tmp_path: Path) -> Upright:
    """Runs `upright ARGS...` as a user would, in a process and a home of its own (tests/command says how)."""

    def run(*args: str | Path, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1", **env}
        return command.run([*map(str, args)], environment, tmp_path, timeout)

    return run


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """A real llama-server, unpacked once into the cache."""
    return Path(made_by("get-llama-server"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """A small real instruct model, fetched once into the cache: real language, and mostly wrong answers."""
    return Path(made_by("get-smollm2"))


@pytest.fixture(scope="session")
def smg() -> Path:
    """A real smg, installed once into the cache."""
    return Path(made_by("get-smg"))


@pytest.fixture(scope="session")
def quadlet() -> Path:
    """podman's real generator of units, unpacked once into the cache."""
    return Path(made_by("get-quadlet"))


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    return TINY_MODEL


@pytest.fixture(scope="session")
def ssh_command(tmp_path_factory, llama_server, podman_settings):
    """`ssh -F OUR_CONFIG`, and `box` leads to our own sshd; nothing of the user's ~/.ssh is read or written."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert sshd, "install openssh-server"
    folder = tmp_path_factory.mktemp("sshd")
    port = free_port()
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    host_key = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"{sshd_environment(UPRIGHT_LLAMA_SERVER=llama_server, CONTAINERS_CONF=podman_settings)}\n"
    )
    (folder / "ssh_config").write_text(
        f"Host box\n HostName 127.0.0.1\n Port {port}\n User {user_name()}\n IdentityFile {folder}/user_key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        f"Host stranger\n HostName 127.0.0.1\n Port {port}\n UserKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
        f"Host nobody\n HostName 127.0.0.1\n Port 1\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        _wait_for_sshd(port, server, folder / "log")
        yield ["ssh", "-F", str(folder / "ssh_config")]
    finally:
        server.terminate()
        server.wait(10)


def _wait_for_sshd(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        assert server.poll() is None, log.read_text()
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"sshd did not listen: {log.read_text()}")


@pytest.fixture(scope="session")
def podman_settings(tmp_path_factory) -> Path:
    """crun and the default limits fail on plain virtual machines; runc with these works."""
    settings = tmp_path_factory.mktemp("podman") / "containers.conf"
    settings.write_text(
        '[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=4096:4096"]\n[engine]\nruntime="runc"\n'
    )
    return settings


@pytest.fixture(scope="session")
def llama_image(podman_settings, llama_server) -> tuple[str, dict[str, str]]:
    """An image of podman with the real llama-server in it, and the environment in which podman runs it."""
    assert shutil.which("podman"), "install podman, runc, catatonit and busybox-static"
    environment = {"CONTAINERS_CONF": str(podman_settings)}
    return made_by("make-llama-image", **environment), environment
