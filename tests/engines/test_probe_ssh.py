"""A real sshd on loopback, with its own keys, configuration and port: the same machine from outside."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from upright.base.errors import HostError
from upright.base.host import LocalHost, RecordedHost, SshHost
from upright.planning.probing import probe

pytestmark = pytest.mark.engine

MOVING = {
    "memory_available_bytes",
    "gpus.memory_free_bytes",
    "disks.free_bytes",
    "model_cache.free_bytes",
    "model_cache.used_bytes",
    "numa.memory_bytes",  # virtual machines that hand memory out lazily count it up
}


def test_the_same_box_from_outside_and_from_inside(ssh_command, llama_server, monkeypatch):
    monkeypatch.setenv("UPRIGHT_LLAMA_SERVER", str(llama_server))
    host = SshHost("box", command=ssh_command)
    begun = time.monotonic()
    outside = probe(host)
    seconds = time.monotonic() - begun
    host.close()
    inside = probe(LocalHost())
    differing = _differences(outside.to_dict(), inside.to_dict())
    assert differing - {"digest"} <= MOVING
    assert outside.engines == inside.engines
    assert outside.engines[0].engine == "llama.cpp"
    assert outside.engines[0].flags is not None
    print(f"probe over ssh: {seconds:.1f} s; differing: {sorted(differing)}")
    assert seconds < 20


def test_the_command_line_reaches_it_too(ssh_command, upright, tmp_path):
    done = upright("probe", "ssh:box", "-o", tmp_path / "box.json", UPRIGHT_SSH_COMMAND=" ".join(ssh_command))
    assert done.returncode == 0, done.stderr
    assert "next: upright plan MODEL --box ssh:box" in done.stderr
    again = upright("probe", tmp_path / "box.json")
    assert again.stdout == done.stdout


def test_a_recording_over_ssh_gives_the_box_back(ssh_command, upright, tmp_path):
    folder = tmp_path / "recording"
    done = upright("probe", "ssh:box", "--record", folder, "--json", UPRIGHT_SSH_COMMAND=" ".join(ssh_command))
    assert done.returncode == 0, done.stderr
    recorded = probe(RecordedHost(folder))
    assert recorded.name == "box"
    assert recorded.cpu.name in done.stdout
    everything = "".join(path.read_text() for path in folder.iterdir())
    assert os.uname().nodename not in everything.split()


def test_output_of_any_shape_comes_back_whole(ssh_command):
    host = SshHost("box", command=ssh_command)
    odd = "two words; $HOME `id` 'quoted' \"double\" \\ upright-0 0 0 0"
    results = host.gather(
        [
            ["printf", "%s", odd],
            ["sh", "-c", "printf out; printf err >&2; exit 3"],
            ["this-command-does-not-exist"],
            ["sh", "-c", "printf '\\377\\000x'"],
            ["cat"],
        ]
    )
    assert results[0].out == odd
    assert (results[1].code, results[1].out, results[1].err) == (3, "out", "err")
    assert results[2].code == 127
    assert results[3].out == "\ufffd\x00x"
    assert (results[4].code, results[4].out) == (0, "")
    assert host.read_text("/proc/sys/kernel/ostype") == "Linux\n"
    assert host.read_text("/no/such/file") is None
    assert host.which("sh") == shutil.which("sh")
    host.close()


def test_a_command_that_hangs_is_an_answer(ssh_command):
    host = SshHost("box", command=ssh_command)
    slow, quick = host.gather([["sleep", "60"], ["echo", "here"]], timeout_seconds=1)
    assert slow.code == 124
    assert quick.out == "here\n"
    host.close()


@pytest.mark.parametrize(
    ("target", "reason"), [("nobody", "Connection refused"), ("stranger", "Host key verification failed")]
)
def test_an_unreachable_machine_is_an_error_for_people(ssh_command, target, reason):
    with pytest.raises(HostError, match=reason) as error:
        SshHost(target, command=ssh_command).run(["true"])
    assert error.value.hint is not None
    assert f"ssh -o BatchMode=yes {target} true" in error.value.hint


def test_the_connection_is_shared_and_ends(ssh_command):
    host = SshHost("box", command=ssh_command)
    host.run(["true"])
    folder = host._folder
    assert any(folder.iterdir()), "no control socket"
    host.close()
    assert not folder.exists()


def _differences(one: object, other: object, path: str = "") -> set[str]:
    """Dotted names of fields that differ; list positions left out."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        if set(one) == {"value", "basis", "source"}:
            return set() if one == other else {path}
        return {name for key in one for name in _differences(one[key], other[key], f"{path}.{key}".strip("."))}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {name for a, b in zip(one, other, strict=True) for name in _differences(a, b, path)}
    return set() if one == other else {path}
