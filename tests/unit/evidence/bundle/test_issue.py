"""A log's failure as the text of an issue: what is needed to file it, and nothing of who files it."""

from __future__ import annotations

import io

from upright.evidence.bundle.issue import issue_text
from upright.evidence.bundle.redacting import KnownIdentities, Redactor
from upright.serving.diagnose import diagnose

LOG = """(EngineCore pid=271) INFO 01-29 10:00:00 [core.py:69] Initializing a V1 LLM engine (v0.32.0)
Traceback (most recent call last):
  File "/home/alice/x/moon.py", line 7, in align
    raise OddError(n)
OddError: 17 ```moons``` of gpu-box-7 with api_key=sk-abcdefghijklmnop1234 at 8.8.8.8
"""


def text_of(log: str) -> str:
    known = KnownIdentities(hosts=frozenset({"gpu-box-7"}))
    return issue_text(diagnose(io.BytesIO(log.encode()), subject="log"), Redactor(known))


def test_the_lines_that_hold_the_cause_are_there_without_their_owner():
    text = text_of(LOG)
    assert text.startswith("# vllm: OddError: 17 ```moons``` of [host] with api_key=[redacted] at [address]\n")
    assert 'File "/home/[user]/x/moon.py", line 7, in align' in text
    for secret in ("alice", "gpu-box-7", "sk-abc", "8.8.8.8"):
        assert secret not in text
    assert "https://github.com/vllm-project/vllm/issues/new" in text


def test_what_a_log_quotes_does_not_end_its_block():
    assert "\n````\n" in text_of(LOG)


def test_a_known_cause_is_named_with_its_threads():
    text = text_of(LOG + "(APIServer pid=1) ValueError: No available memory for the cache blocks.\n")
    assert "`vllm-no-memory-for-cache`" in text
    assert "- see https://github.com/vllm-project/vllm/issues/2248" in text


def test_an_escape_sequence_reaches_no_terminal():
    assert "\x1b" not in text_of(LOG.replace("17", "\x1b]0;owned\x0717"))
