"""What is taken out of a text, and what is not."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from upright.evidence.bundle.redacting import KnownIdentities, Redactor

KNOWN = KnownIdentities(
    secrets={"correct-horse-battery": "the value of DEPLOY_TOKEN", "abc": "too short to be one"},
    folders={"/home/margaret": "~", "/data/upright": "$UPRIGHT_HOME"},
    users=frozenset({"margaret", "root"}),
    hosts=frozenset({"vm", "gpu-tower"}),
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key=correct-horse-battery!", "key=[redacted]!"),
        ("Authorization: Bearer sk-upright-2fH8s0a9dk3JhA", "Authorization: Bearer [redacted]"),
        ("authorization: bearer eyJhbGciOi.J9eyJzdWIi", "authorization: bearer [redacted]"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]"),
        ("x-api-key: 12345678", "x-api-key: [redacted]"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "HF_TOKEN=[redacted]"),
        ("'api_key': 's3cr3t-v4lue'", "'api_key': '[redacted]'"),
        ('"password": "hunter22"', '"password": "[redacted]"'),
        ("--api-key=very-long-value --port 1", "--api-key=[redacted] --port 1"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("https://me:pass@proxy.example/x", "https://[redacted]@proxy.example/x"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "[redacted]"),
        ("/home/margaret/models/x.gguf", "~/models/x.gguf"),
        ("/home/someone/else", "/home/[user]/else"),
        ("/Users/someone/else", "/Users/[user]/else"),
        ("/data/upright/deployments/x", "$UPRIGHT_HOME/deployments/x"),
        ("run by margaret on gpu-tower", "run by [user] on [host]"),
        ("vm", "[host]"),
        ("from 8.8.4.4 port 1", "from [address] port 1"),
        ("from 2001:4860:4860::8888 port 1", "from [address] port 1"),
        ("write to me@example.org", "write to [mail]"),
    ],
)
def test_taken_out(text: str, left: str) -> None:
    redactor = Redactor(KNOWN)
    assert redactor.text(text) == left
    assert sum(redactor.times.values()) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 512, prompt_tokens=20480",
        "tokenizer: kimi_k2, token: 5",
        "a task-list-of-many-words and a disk-scheduler-name",
        "http://127.0.0.1:8000/v1 at 192.168.1.20 and 10.0.0.1, ::1",
        "driver 570.124.06, NCCL 2.27.3, CUDA 12.8",
        "vm.overcommit_memory = 1 as root in /root-fs",
        "gpu-tower-2 and margarets",
        "12:34:56 and 2026-11-15T04:00:00",
        "--api-key-file {key_file}",
        "abc",
        "0123456789abcdef" * 4,
    ],
)
def test_left_alone(text: str) -> None:
    redactor = Redactor(KNOWN)
    assert redactor.text(text) == text
    assert not redactor.times


def test_data_with_its_names() -> None:
    redactor = Redactor(KNOWN)
    assert redactor.data({"gpu-tower": [1, None, True, {"by": "margaret"}]}) == {
        "[host]": [1, None, True, {"by": "[user]"}]
    }
    assert redactor.times == {"the host's name": 1, "the user's name": 1}


def test_what_it_knows_is_not_in_its_own_words() -> None:
    assert "correct-horse" not in repr(KNOWN)


CLOCKS = st.integers(0, 10**10).map(
    lambda us: f"{us // 60_000_000}.{us // 1_000_000 % 60:02}.{us // 1000 % 1000:03}.{us % 1000:03}"
)
"""Minutes, seconds, milliseconds and microseconds as llama.cpp prints them (common/log.cpp)."""


@given(
    clock=CLOCKS | st.just("1.23.145.211"),
    before=st.sampled_from(["", "\n", "first line\n", "\x1b[34m", "llama-1  | ", "Nov 18 12:00:00 host llama[12]: "]),
    level=st.sampled_from(["I ", "W ", "E ", "D ", "\x1b[32mI \x1b[0m"]),
    address=st.ip_addresses(v=4).filter(lambda address: address.is_global),
)
def test_llama_cpps_clock_is_no_address_and_an_address_beside_it_is_one(
    clock: str, before: str, level: str, address: ipaddress.IPv4Address
) -> None:
    ended = "\x1b[0m " if "\x1b" in before else " "
    log = f"{before}{clock}{ended}{level}srv  log_server_r: done request: GET /health {{}} 200"
    assert Redactor(KNOWN).text(log.format(address)) == log.format("[address]")


@given(address=st.ip_addresses(v=4).filter(lambda address: address.is_global) | st.just("8.34.208.117"))
def test_an_address_that_is_no_clock_goes_wherever_it_stands(address: object) -> None:
    texts = "{} - - [18/Nov/2026] GET /", "from {} I got no answer", "{}", "at {}:8000", "{} INFO ready", "{} I"
    for text in texts:
        assert Redactor(KNOWN).text(text.format(address)) == text.format("[address]")


def test_no_line_of_a_recorded_log_is_changed_but_for_homes_and_addresses() -> None:
    """Every engine's real logs, failures and healthy ones: versions, clocks, sizes and frames are no addresses."""
    files = [file for file in (ROOT / "tests/recordings").rglob("*") if file.is_file() and _is_log(file)]
    lines = {line.strip() for file in files for line in file.read_text(errors="replace").splitlines()}
    redactor = Redactor(KnownIdentities())
    private = ("/home/", "/Users/", "://11.215.121.109:", "node:123.45.67.1'")
    damaged = [line for line in lines if redactor.text(line) != line and not any(mark in line for mark in private)]
    assert damaged == []
    assert len(lines) > 5_000


def _is_log(file: Path) -> bool:
    return file.suffix == ".log" or {"logs", "failures"} & set(file.parts) != set()
