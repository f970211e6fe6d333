"""What a machine says after a failure: each answer is a line, and a row of the catalogue knows it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

from upright.base.host import Result
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose import LogContext, diagnose, machine

NOTHING = Result(127, "", "not found")
NOW = "2026-11-15T04:14:00+00:00"
KILLED = "Memory cgroup out of memory: Killed process 15883 (llama-server) total-vm:809220kB, anon-rss:48576kB"


class Said:
    """A machine that answers what it is told to."""

    name = "box"

    def __init__(self, files: dict[str, str] | None = None, **answers: Result) -> None:
        self.answers, self.files = answers, files or {}

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        return self.answers.get(argv[0].replace("-", "_"), NOTHING)

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        return [self.run(argv) for argv in commands]

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def which(self, program: str) -> str | None:
        return None


def told(host: Said, *, died: bool = True, pids: tuple[int, ...] = ()) -> list[str]:
    return [
        each.text for each in machine.ask_machine(host, machine.RunQuestion(since=NOW, pids=pids, port=8000, died=died))
    ]


def code(host: Said, exit_code: int | None = 1, *, died: bool = True) -> str | None:
    said = machine.ask_machine(host, machine.RunQuestion(since=NOW, port=8000, died=died))
    around = LogContext(exit_code=exit_code, failed=died, machine=said)
    return diagnose(io.BytesIO(b"loading\n"), subject="log", around=around).code


def test_a_machine_that_cannot_be_asked_says_nothing():
    assert told(Said()) == []


def test_the_oom_killer_in_the_journal_or_in_the_ring():
    assert code(Said(journalctl=Result(0, f"usb 1-1: new device\n{KILLED}\n", "")), -9) == "host-killed-for-memory"
    ring = f"2026-11-15T04:14:14,809570+00:00 {KILLED}\n2026-11-15T04:14:15,1+00:00 usb 1-1: new device\n"
    assert code(Said(dmesg=Result(0, ring, "")), -9) == "host-killed-for-memory"


def test_what_the_kernel_said_before_the_start_is_about_others():
    ring = f"2026-11-14T04:14:14,809570+00:00 {KILLED}\n"
    assert told(Said(dmesg=Result(0, ring, ""))) == []


def test_a_kill_of_somebody_else_is_no_failure_of_a_run_that_goes_on():
    journal = Said(journalctl=Result(0, f"{KILLED}\n", ""))
    assert told(journal, died=False, pids=(4711,)) == []
    assert told(journal, died=False, pids=(15883,)) == [KILLED]


def test_a_run_that_died_is_told_by_the_numbers_of_its_processes():
    """The kernel kills a worker, seldom the process that was started; and it kills other people's programs too."""
    journal = Said(journalctl=Result(0, f"{KILLED}\n", ""))

    def of(workers: tuple[int, ...]) -> list[str]:
        question = machine.RunQuestion(since=NOW, pids=(4711,), workers=workers, port=8000)
        return [sighting.text for sighting in machine.ask_machine(journal, question)]

    assert of((4711, 15883)) == [KILLED]
    assert of((4711, 4712)) == []
    assert of(()) == [KILLED], "nobody looked at its processes: it may have been one of them"


def test_a_kill_that_names_nobody_may_be_anybodys():
    line = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)"
    question = machine.RunQuestion(since=NOW, pids=(4711,), workers=(4712,), port=8000)
    assert [
        sighting.text for sighting in machine.ask_machine(Said(journalctl=Result(0, f"{line}\n", "")), question)
    ] == [line]


def test_the_cgroups_own_count():
    files = {"/sys/fs/cgroup/memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"}
    assert code(Said(files), -9) == "host-cgroup-out-of-memory"
    assert told(Said({"/sys/fs/cgroup/memory.events": "oom_kill 0\n"})) == []


def test_a_full_disk():
    lines = "Filesystem 1-blocks Used Available Capacity Mounted on\ntmpfs 16384 16384 0 100% /var/small disk\n"
    assert told(Said(df=Result(0, lines, ""))) == ["df: /var/small disk has 0 bytes free of 16384"]
    assert code(Said(df=Result(0, lines.replace("small disk", "small"), ""))) == "host-disk-full"
    roomy = lines.replace(" 0 100%", " 99999999999 1%")
    assert told(Said(df=Result(0, roomy, ""))) == []


def test_somebody_else_has_the_port_and_not_the_engine_itself():
    line = 'LISTEN 0 5 127.0.0.1:8000 0.0.0.0:* users:(("python3",pid=4242,fd=3))\n'
    assert told(Said(ss=Result(0, line, ""))) == ["ss: port 8000 is held by python3 (pid 4242)"]
    assert code(Said(ss=Result(0, line, ""))) == "host-port-held"
    assert told(Said(ss=Result(0, line, "")), pids=(4242,)) == []


def test_a_driver_that_was_updated_under_a_running_kernel():
    mismatch = Result(18, "Failed to initialize NVML: Driver/library version mismatch\n", "")
    assert code(Said(nvidia_smi=mismatch)) == "host-driver-mismatch"


@pytest.mark.parametrize(
    ("rows", "spins"),
    [
        ("0, 100, 140.2, 600.0\n1, 100, 139.0, 600.0\n", True),
        ("0, 100, 540.2, 600.0\n1, 100, 139.0, 600.0\n", False),
        ("0, 12, 140.2, 600.0\n", False),
        ("0, [N/A], [N/A], [N/A]\n", False),
    ],
)
def test_gpus_that_are_busy_and_do_nothing(rows: str, spins: bool):
    host = Said(nvidia_smi=Result(0, rows, ""))
    assert (code(host, None, died=False) == "host-gpus-spin-idle") is spins
    assert told(host) == [], "only a run that goes on is asked"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("NVRM: GPU at PCI:0000:41:00: GPU-00000000-1111-2222-3333-444444444444", None),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "host-gpu-lost"),
        ("NVRM: Xid (PCI:0000:41:00): 95, pid=4711, Uncontained: LTC TAG (0x2,0x0)", "xid-memory"),
        ("NVRM: Xid (PCI:0000:41:00): 74, pid=4711, NVLink: fatal error detected on link 3", "xid-nvlink"),
        ("NVRM: Xid (PCI:0000:41:00): 119, pid=4711, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
         "xid-firmware"),
        ("NVRM: Xid (PCI:0000:41:00): 140, pid=4711, ECC Unrecovered Error", "xid-memory"),
        ("NVRM: Xid (PCI:0000:41:00): 92, pid=4711, High single-bit ECC error rate", None),
        ("NVRM: Xid (PCI:0000:41:00): 31, pid=4711, Ch 00000008, intr 10000000. MMU Fault", "xid-program-fault"),
    ],
)  # fmt: skip
def test_an_xid_is_told_by_its_number_and_its_preface_by_nothing(said: str, code: str | None):
    """https://docs.nvidia.com/deploy/xid-errors: the line with the card's UUID comes before any of them."""
    around = LogContext(failed=True, machine=(Sighting(where="kernel", text=said),))
    assert diagnose(io.BytesIO(), subject="moon", around=around).code == code


LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             unlimited            unlimited            bytes
Max data size             unlimited            unlimited            bytes
Max processes             95721                95721                processes
Max address space         1572864000           unlimited            bytes
"""


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("pthread_create failed: Resource temporarily unavailable", "host-address-space-limited"),
        ("0.02.1 E ggml_aligned_malloc: Cannot allocate memory", "host-address-space-limited"),
        ("loading", None),
    ],
)
def test_a_limit_that_is_set_is_the_cause_of_what_the_log_says_was_refused(said: str, code: str | None):
    """Address space is neither RAM nor a number of processes; a limit alone is no failure."""
    asked = machine.ask_machine(Said(), machine.RunQuestion(since=NOW, limits=LIMITS))
    assert [sighting.text for sighting in asked] == ["limits: address space 1572864000 bytes"]
    around = LogContext(engine="llama.cpp", exit_code=1, failed=True, machine=asked)
    found = diagnose(io.BytesIO(f"{said}\n".encode()), subject="log", around=around)
    assert (found.code, found.certainty) == (code, "cause" if code else None)


def test_the_cgroup_that_it_ran_in_counts_before_the_containers():
    own = "/sys/fs/cgroup/user.slice/run.scope/memory.events"
    files = {
        "/proc/4711/cgroup": "4:memory:/x\n0::/user.slice/run.scope\n",
        own: "oom 1\noom_kill 1\n",
        "/sys/fs/cgroup/memory.events": "oom_kill 70\n",
    }
    assert told(Said(files), pids=(4711,)) == [f"{own}: oom_kill 1"]
    assert told(Said({**files, own: "oom_kill 0\n"}), pids=(4711,)) == []
    assert told(Said(files)) == ["/sys/fs/cgroup/memory.events: oom_kill 70"]
