"""The seam to machines: here, framed for there, recorded, and without names."""

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from upright.base.errors import HostError, UsageError
from upright.base.host import IdentityRedaction, LocalHost, RecordedHost, RecordingHost, Result, SshHost
from upright.base.host.recorded import signature
from upright.base.host.ssh import _frames, _parse, _script
from upright.planning.probing import probe
from upright.planning.probing.redaction import redaction_for


class Scripted:
    """A host that says what it is told to say."""

    def __init__(self, name, answers):
        self.name = name
        self._answers = answers

    def run(self, argv, *, timeout_seconds=20):
        return self._answers.get(signature(argv), Result(127, "", "not found"))

    def gather(self, commands, *, timeout_seconds=20):
        return [self.run(argv) for argv in commands]

    def read_text(self, path):
        return self.run(["cat", path]).out or None

    def which(self, program):
        return None


def test_here_a_failure_is_an_answer():
    host = LocalHost()
    assert host.run(["true"]) == Result(0, "", "")
    assert host.run(["no-such-command"]).code == 127
    assert host.run(["sh", "-c", "echo out; echo err >&2; exit 4"]) == Result(4, "out\n", "err\n")
    assert host.run(["sleep", "30"], timeout_seconds=0.2).code == 124
    assert host.run(["cat"]).out == "", "a command must not read our stdin"


@pytest.mark.parametrize(
    "text",
    ["sleep 30 & sleep 30", "trap '' TERM; sleep 30", "setsid sleep 30 & exit 0"],
    ids=["a child of the child", "one that ignores TERM", "one that keeps the pipe"],
)
def test_here_nothing_can_hold_a_probe_up(text):
    begun = time.monotonic()
    assert LocalHost().run(["sh", "-c", text], timeout_seconds=0.3).code == 124
    assert time.monotonic() - begun < 15, "not the 30 s of what it started"


def test_there_nothing_can_hold_a_probe_up():
    """The shell that travels, without `timeout`: the watchdog ends the waiting."""
    text = _script([["sleep", "30"], ["echo", "x"]], "m", 0).replace("command -v timeout", "false")
    begun = time.monotonic()
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, check=True)
    assert 1.5 < time.monotonic() - begun < 15
    slow, quick = _frames(done.stdout, "m", 2)
    assert (slow.code, quick) == (124, Result(0, "x\n", ""))


def test_here_answers_keep_their_order():
    results = LocalHost().gather([["sh", "-c", f"sleep 0.{9 - n}; echo {n}"] for n in range(4)])
    assert [result.out for result in results] == ["0\n", "1\n", "2\n", "3\n"]


def test_the_script_that_travels_is_plain_sh_and_frames_every_answer():
    commands = [["printf", "%s", "a b"], ["sh", "-c", "echo err >&2; exit 5"], ["no-such-command"]]
    text = _script(commands, "upright-mark", 10)
    noise = "Welcome to the machine\n"
    plain = {"PATH": "/usr/bin:/bin"}  # a folder of it that this user may not enter would make it "not allowed"
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, check=True, env=plain)
    results = _frames(noise.encode() + done.stdout, "upright-mark", 3)
    assert results[0] == Result(0, "a b", "")
    assert results[1] == Result(5, "", "err\n")
    assert results[2].code == 127


@pytest.mark.parametrize("cut", [0, 10, 40, -1])
def test_a_connection_that_breaks_is_no_answer(cut):
    done = subprocess.run(["sh"], input=_script([["echo", "x" * 50]], "m", 9).encode(), capture_output=True, check=True)
    assert _frames(done.stdout[:cut], "m", 1) == []
    assert len(_frames(done.stdout, "m", 1)) == 1


def test_a_machine_without_sh_is_an_error_for_people(tmp_path):
    fake = tmp_path / "ssh"
    fake.write_text("#!/bin/sh\ncat >/dev/null\necho \"'sh' is not recognized as a command\" >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(HostError, match="box gave 0 of 1 answers, then: 'sh' is not recognized"):
        SshHost("box", command=[str(fake)]).run(["true"])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("box", ("box", None)),
        ("me@box", ("me@box", None)),
        ("me@box.example:2222", ("me@box.example", "2222")),
        ("192.0.2.7:22", ("192.0.2.7", "22")),
        ("fd00::1", ("fd00::1", None)),
        ("me@[fd00::1]:2222", ("me@fd00::1", "2222")),
    ],
)
def test_targets(target, expected):
    assert _parse(target) == expected


@pytest.mark.parametrize("target", ["", "-oProxyCommand=x", "me@-x", "-l@box", "two words", "@box", "a@b@c"])
def test_what_is_no_target(target):
    with pytest.raises(UsageError):
        _parse(target)


def test_ssh_that_is_not_there():
    with pytest.raises(HostError, match="cannot start no-such-ssh"):
        SshHost("box", command=["no-such-ssh"]).run(["true"])


def test_ssh_asks_for_no_password_and_names_the_port(tmp_path):
    fake = tmp_path / "ssh"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{tmp_path}/words"\ncat >/dev/null\nexit 255\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(HostError, match="cannot reach me@box:2222: ssh gave no reason"):
        SshHost("me@box:2222", command=[str(fake)]).run(["true"])
    words = (tmp_path / "words").read_text().splitlines()
    assert "BatchMode=yes" in words
    assert words[words.index("-p") + 1] == "2222"
    assert not any("StrictHostKeyChecking" in word for word in words), "host keys are the user's business"


def test_a_recording_answers_as_the_host_did(tmp_path):
    host = RecordingHost(LocalHost())
    first = probe(host)
    count = host.save(tmp_path / "r", lambda text: text, made_by="test")
    again = probe(RecordedHost(tmp_path / "r"))
    assert again == first
    assert count >= 30
    assert RecordedHost(tmp_path / "r").run(["never", "asked"]) == Result(127, "", "not in this recording")


def test_a_recording_outlives_a_longer_list_of_fields():
    old = signature(["nvidia-smi", "--query-gpu=index,name", "--format=csv"])
    new = signature(["nvidia-smi", "--query-gpu=index,name,compute_cap", "--format=csv"])
    assert old == new
    assert signature(["sh", "-c", "old text", "disks"]) == signature(["sh", "-c", "new text", "disks"])
    assert signature(["sh", "-c", "text", "disks"]) != signature(["sh", "-c", "text", "numa"])


SECRETS = {
    "host": "vault7",
    "domain": "corp.example.com",
    "user": "alice",
    "other user": "bob.smith",
    "gpu uuid": "4a5c8d1e-9f3b-4c2d-8e7f-1a2b3c4d5e6f",
    "serial": "S6XPNS0T123456",
    "board serial": "1652923012345",
    "asset": "ASSET-0042",
    "mac": "3c:ec:ef:12:34:56",
    "ipv4": "10.20.30.40",
    "ipv6": "fd12:3456:789a::42",
    "token": "hf_AbCdEfGhIjKlMnOpQrStUvWx",
    "share": "filer9",
}


def _planted():
    """Answers with every secret where real tools print it."""
    s = SECRETS
    disks = (
        "Filesystem Type 1024-blocks Used Available Capacity Mounted on\n"
        f"/dev/nvme0n1p2 ext4 900000000 1 800000000 1% /home/{s['user']}\n"
        f"{s['share']}:/export nfs4 900000000 1 700000000 1% /mnt/{s['other user']}\n"
        f"//{s['share']}/models cifs 900000000 1 600000000 1% /media/{s['user']}/models\n"
        f"{s['ipv4']}:/x nfs4 900000000 1 700000000 1% /mnt/x\n"
    )
    dimm = (
        "Handle 0x0001, DMI type 17, 92 bytes\nMemory Device\n\tSize: 64 GB\n\tLocator: DIMM 0\n"
        f"\tBank Locator: P0 CHANNEL A\n\tType: DDR5\n\tSerial Number: {s['serial']}\n\tAsset Tag: {s['asset']}\n"
        "\tConfigured Memory Speed: 6400 MT/s\n"
    )
    long_form = (
        f"Driver Version : 580.105.08\nCUDA Version : 13.0\nGPU 00000000:01:00.0\n"
        f"    Serial Number                         : {s['board serial']}\n"
        f"    GPU UUID                              : GPU-{s['gpu uuid']}\n"
    )
    engines = f"llama-server\t/home/{s['user']}/llama.cpp/llama-server\npython3\t/usr/bin/python3\n"
    help_text = f"--model FILE    default /home/{s['user']}/m.gguf, token {s['token']}, host 127.0.0.1 or {s['ipv6']}\n"
    said = {
        ("uname", "-nrm"): f"{s['host']}.{s['domain']} 6.8.0 x86_64\n",
        ("sh", "disks"): disks,
        ("sh", "model-cache"): f"path\t/home/{s['user']}/.cache/huggingface/hub\ndf\t{s['share']}:/e 9 1 8 1% /mnt\n",
        ("dmidecode", "-t", "memory"): dimm,
        ("nvidia-smi", "-q"): long_form,
        ("sh", "engines"): engines,
        (f"/home/{s['user']}/llama.cpp/llama-server", "--help"): help_text,
        (f"/home/{s['user']}/llama.cpp/llama-server", "--version"): f"version: 1 (built by {s['user']}@{s['host']})\n",
        ("cat", "/etc/os-release"): f'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nMAC={s["mac"]}\n',
        ("sh", "identity-hosts"): f"{s['host']}\n{s['host']}.{s['domain']}\n",
        ("sh", "identity-users"): f"{s['user']}\nroot\n{s['other user']}\n",
    }
    return Scripted(
        f"{s['user']}@{s['host']}.{s['domain']}", {key: Result(0, text, text) for key, text in said.items()}
    )


def test_planted_secrets_do_not_survive_a_recording(tmp_path):
    host = _planted()
    recorder = RecordingHost(host)
    probe(recorder)
    recorder.save(tmp_path / "r", redaction_for(host), made_by="test")
    names = " ".join(path.name for path in (tmp_path / "r").iterdir())
    everything = names + "".join(path.read_text() for path in (tmp_path / "r").iterdir())
    survivors = [kind for kind, secret in SECRETS.items() if secret.lower() in everything.lower()]
    assert survivors == []


def test_a_redacted_recording_still_tells_what_the_machine_is(tmp_path):
    host = _planted()
    recorder = RecordingHost(host)
    before = probe(recorder)
    recorder.save(tmp_path / "r", redaction_for(host), made_by="test")
    after = probe(RecordedHost(tmp_path / "r"))
    assert after.name == "box"
    assert after.memory_modules == before.memory_modules
    assert after.memory_bandwidth_bytes_per_second == before.memory_bandwidth_bytes_per_second
    assert [disk.free_bytes for disk in after.disks] != []
    assert [engine.program for engine in after.engines] == ["/home/user/llama.cpp/llama-server"]
    assert after.software.cuda == before.software.cuda == "13.0"


@pytest.mark.parametrize(
    "text",
    [
        "GPU 00000000:01:00.0",
        "0000:c1:00.0\t0x10de\t0",
        "580.105.08",
        "NVIDIA-SMI 580.105.08 Driver Version: 580.105.08",
        "listen on 127.0.0.1 or 0.0.0.0",
        "12:34:56",
        "Serial Number: Not Specified",
        "https://github.com/ggml-org/llama.cpp/pull/13194",
        "NUMA node0 CPU(s): 0-15,32-47",
        "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+",
        "/root/.cache/huggingface/hub",
    ],
)
def test_what_describes_the_hardware_stays(text):
    assert IdentityRedaction(hosts=["vault7"], users=["root", "alice"])(text) == text


def test_names_go_only_as_words():
    redact = IdentityRedaction(hosts=["gpu1.lab.example"], users=["al"])
    assert redact("gpu1 GPU1 gpu12 gpu1.lab.example al also /data/al/x") == "box box gpu12 box user also /data/user/x"


def test_the_users_own_home_is_asked_for_and_not_recorded():
    recorder = RecordingHost(LocalHost())
    probe(recorder)
    assert not any("identity" in word for argv, _ in recorder._kept.values() for word in argv)
    assert os.uname().nodename in redaction_for(LocalHost()).hosts


def test_a_recording_needs_a_folder_that_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    recorder = RecordingHost(LocalHost())
    recorder.run(["true"])
    with pytest.raises(HostError, match="cannot write the recording"):
        recorder.save(Path(tmp_path / "file" / "r"), str, made_by="test")


def test_a_recording_replaces_an_earlier_one_and_nothing_else(tmp_path):
    recorder = RecordingHost(LocalHost())
    recorder.run(["echo", "first"])
    recorder.run(["echo", "second"])
    recorder.save(tmp_path / "r", str, made_by="test")
    shorter = RecordingHost(LocalHost())
    shorter.run(["echo", "third"])
    shorter.save(tmp_path / "r", str, made_by="test")
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["00-echo-third.out.txt", "recording.json"]
    (tmp_path / "r" / "thesis.md").write_text("precious")
    with pytest.raises(HostError, match="holds other files"):
        shorter.save(tmp_path / "r", str, made_by="test")
    assert (tmp_path / "r" / "thesis.md").read_text() == "precious"
    assert (tmp_path / "r" / "00-echo-third.out.txt").exists()
