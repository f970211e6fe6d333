"""Two hosts in network namespaces, each with its own address and sshd, and a stranger on the same wire."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.command import command
from tests.conftest import TINY_MODEL, sshd_environment, user_name
from tests.engines.test_line import answer
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]  # a loaded machine is no bug

FLEET = """record: fleet
schema: 1
name: pair
model: {model}
goal: {{context_tokens: 1024, users: 4}}
boxes:
  - {{name: alpha, at: "ssh:alpha", address: {net}.11}}
  - {{name: beta, at: "ssh:beta"}}
router: {{port: {port}, metrics_port: {metrics}, health_seconds: 1}}
"""


class Wire:
    """A bridge with an address of ours, and hosts on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tag = folder, secrets.token_hex(2)
        self.net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        self.hosts = {"alpha": f"{self.net}.11", "beta": f"{self.net}.12", "stranger": f"{self.net}.99"}
        self.daemons: list[subprocess.Popen[bytes]] = []

    def space(self, host: str) -> str:
        return f"up{self.tag}-{host}"

    def build(self) -> None:
        bridge = f"up{self.tag}"
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.net}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for number, (host, address) in enumerate(self.hosts.items()):
            near, far = f"up{self.tag}n{number}", f"up{self.tag}f{number}"
            _run("ip", "netns", "add", self.space(host))
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
            _run("ip", "link", "set", far, "netns", self.space(host))
            _run("ip", "link", "set", near, "master", bridge, "up")
            self.inside(host, "ip", "addr", "add", f"{address}/24", "dev", far)
            self.inside(host, "ip", "link", "set", far, "up")
            self.inside(host, "ip", "link", "set", "lo", "up")

    def inside(self, host: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return _run("ip", "netns", "exec", self.space(host), *argv)

    def serve_ssh(self, environment: dict[str, str]) -> Path:
        """An sshd of its own on each host, and the configuration that leads there."""
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert sshd, "install openssh-server"
        Path("/run/sshd").mkdir(exist_ok=True)
        folder = self.folder
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "user_key"))
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        known, config = [], []
        for host in ("alpha", "beta"):
            key = folder / f"{host}_key"
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
            kind, public = key.with_suffix(".pub").read_text().split()[:2]
            known.append(f"{self.hosts[host]} {kind} {public}\n")
            (folder / f"{host}.conf").write_text(
                f"ListenAddress {self.hosts[host]}\nHostKey {key}\nPidFile none\nUsePAM no\nStrictModes no\n"
                f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\n"
                f"KbdInteractiveAuthentication no\n{sshd_environment(**environment)}\n"
            )
            argv = ["ip", "netns", "exec", self.space(host), sshd, "-D", "-e", "-f", str(folder / f"{host}.conf")]
            with (folder / f"{host}.log").open("w") as log:
                self.daemons.append(subprocess.Popen(argv, stderr=log))
            config.append(
                f"Host {host}\n HostName {self.hosts[host]}\n User {user_name()}\n"
                f" IdentityFile {folder}/user_key\n IdentitiesOnly yes\n"
                f" UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
            )
        (folder / "known_hosts").write_text("".join(known))
        (folder / "ssh_config").write_text("".join(config))
        return folder / "ssh_config"

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.terminate()
            daemon.wait(10)
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", self.space(host)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"up{self.tag}"], capture_output=True, check=False)


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True)


@pytest.fixture
def wire(tmp_path: Path, llama_server: Path) -> Iterator[Wire]:
    assert shutil.which("ip"), "install iproute2"
    made = Wire(tmp_path)
    try:
        try:
            made.build()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine gives no network namespaces: {' '.join(error.cmd)}: {error.stderr.strip()}")
        yield made
    finally:
        made.close()


def reached(wire: Wire, host: str, address: str, port: int) -> str:
    """What a TCP connection from that host meets: open, refused, or nothing."""
    script = (
        "import socket, sys\ns = socket.socket(); s.settimeout(2)\n"
        "try: s.connect((sys.argv[1], int(sys.argv[2]))); print('open')\n"
        "except ConnectionRefusedError: print('refused')\nexcept OSError: print('nothing')"
    )
    return wire.inside(host, sys.executable, "-c", script, address, str(port)).stdout.strip()


class Operator:
    """A person on this machine, with ssh to the hosts."""

    def __init__(self, wire: Wire, smg: Path, llama_server: Path, folder: Path) -> None:
        self.folder, self.home, self.file = folder, folder / "home", folder / "fleet.yaml"
        path = f"{smg.parent}:{llama_server.parent}:{os.environ['PATH']}"
        there = {"PATH": path, "LLAMA_ARG_THREADS": "1"}
        config = wire.serve_ssh(there)
        ssh = f"ssh -F {config}"
        self.environment = {
            **os.environ, **there, "UPRIGHT_HOME": str(self.home), "NO_COLOR": "1", "UPRIGHT_SSH_COMMAND": ssh
        }  # fmt: skip

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [*command(), "fleet", *words]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=500, env=self.environment, cwd=self.folder, check=False
        )

    def key(self, name: str) -> str:
        return (self.home / f"fleets/pair/{name}.key").read_text().strip()


def chat(url: str, key: str | None) -> int:
    body = {"model": "tiny-kimi", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(
        f"{url}/v1/chat/completions", json=body, headers=headers, trust_env=False, timeout=60
    ).status_code


@pytest.mark.slow
def test_two_hosts_up_status_roll_down(wire: Wire, smg: Path, llama_server: Path, tmp_path: Path):
    fleet, port = Operator(wire, smg, llama_server, tmp_path), free_port()
    text = FLEET.format(model=TINY_MODEL, net=wire.net, port=port, metrics=free_port())
    fleet.file.write_text(text)
    try:
        up = answer(fleet("up", "--json"))
        assert [(box["box"], box["at"], box["state"], box["router"]) for box in up["boxes"]] == [
            ("alpha", "ssh:alpha", "ready", "ready"),
            ("beta", "ssh:beta", "ready", "ready"),
        ]
        assert chat(f"http://127.0.0.1:{port}", fleet.key("client")) == 200
        assert chat(f"http://127.0.0.1:{port}", fleet.key("worker")[:-1]) == 401

        # beta's engine is on its loopback: it answers only what comes through ssh. alpha's is on the wire, for its key
        # alone; one line of its firewall (docs/fleet.md) leaves the router as the only one who gets that far.
        assert reached(wire, "stranger", wire.hosts["beta"], 8000) == "refused"
        assert reached(wire, "stranger", wire.hosts["alpha"], 8000) == "open"
        for key in (None, fleet.key("client"), fleet.key("admin")):
            assert chat(f"http://{wire.hosts['alpha']}:8000", key) == 401
        wire.inside("alpha", "ip", "rule", "add", "to", f"{wire.net}.0/24", "sport", "8000", "blackhole")
        wire.inside("alpha", "ip", "rule", "add", "pref", "100", "to", f"{wire.net}.1", "lookup", "main")
        assert reached(wire, "stranger", wire.hosts["alpha"], 8000) == "nothing"

        status = fleet("status", "pair")
        assert status.returncode == 0, status.stdout + status.stderr
        assert all(len(line) <= 80 for line in status.stdout.splitlines()), status.stdout
        before = {box["box"]: box["recipe"] for box in up["boxes"]}
        fleet.file.write_text(text.replace("users: 4", "users: 3"))
        roll = answer(fleet("roll", "--json"))
        assert [(step["box"], step["phase"]) for step in roll["steps"]] == [("alpha", "done"), ("beta", "done")]
        after = json.loads(fleet("status", "pair", "--json").stdout)
        assert after["well"]
        assert all(box["recipe"] != before[box["box"]] for box in after["boxes"])
    finally:
        down = fleet("down", "pair", "--json")
    assert {item["state"] for item in json.loads(down.stdout)} == {"stopped"}, down.stderr
    deadline = time.monotonic() + 20
    while any(reached(wire, host, "127.0.0.1", 8000) == "open" for host in ("alpha", "beta")):
        assert time.monotonic() < deadline, "an engine was left"
        time.sleep(0.3)


@pytest.mark.slow
def test_the_router_on_one_of_the_hosts(wire: Wire, smg: Path, llama_server: Path, tmp_path: Path):
    """It answers clients of the wire on its own address, and us through a tunnel."""
    fleet = Operator(wire, smg, llama_server, tmp_path)
    text = FLEET.format(model=TINY_MODEL, net=wire.net, port=9000, metrics=29000)
    text = text.replace('at: "ssh:beta"', f'at: "ssh:beta", address: {wire.net}.12')
    place = f'at: "ssh:alpha", address: {wire.net}.11, local_port: {free_port()}, '
    fleet.file.write_text(text.replace("router: {", f"router: {{{place}"))
    try:
        up = answer(fleet("up", "--json"))
        assert up["well"]
        assert chat(f"http://{wire.hosts['alpha']}:9000", fleet.key("client")) == 200
        assert chat(f"http://{wire.hosts['alpha']}:9000", None) == 401
        assert chat(up["router"]["base_url"], fleet.key("client")) == 200
        roll = answer(fleet("roll", "--again", "--json"))
        assert [step["phase"] for step in roll["steps"]] == ["done", "done"]
    finally:
        down = fleet("down", "pair", "--json")
    assert {item["state"] for item in json.loads(down.stdout)} == {"stopped"}, down.stderr
    assert list((Path.home() / ".local/state/upright/fleets/pair").glob("*.key")) == [], "keys do not stay behind"
