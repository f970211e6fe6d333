"""Words that cannot be right are refused first: before a machine is probed, and before a server is spoken to."""

from __future__ import annotations

import pytest

from tests.conftest import Upright

NOBODY = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("words", "talk"),
    [
        (
            ["prove", "--base-url", NOBODY, "--to", "nonsense"],
            ["error: Invalid value for '--to': no rung is named nonsense; they are arguments, rehearse, boot, smoke"],
        ),
        (["run", "kimi-k2.6", "--to", "nonsense"], ["error: Invalid value for '--to': no rung is named nonsense"]),
        (
            ["prove", "--base-url", NOBODY],
            ["error: http://127.0.0.1:1/v1/models cannot be reached: ", "hint:  is a server running at that address?"],
        ),
        (["up", "nosuch.gguf"], ["reading nosuch.gguf", "error: nosuch.gguf is no file"]),
        (["run", "nosuch.gguf"], ["reading nosuch.gguf", "error: nosuch.gguf is no file"]),
        (["prove", "--speculate", "magic"], ["error: no way to speculate named 'magic'", "hint:  known: none, ngram,"]),
        (["prove", "--speculate", "draft=no.gguf"], ["error: no draft at no.gguf", "hint:  a path, or fetch it first"]),
        (["prove", "--speculate", "ngram", "--cells", "8k"], ["error: Invalid value for '--cells': '8k' is no cell"]),
        (["prove", "--cells", "512x1"], ["error: --cells is for --speculate", "hint:  --speculate ngram"]),
        (
            ["prove", "--speculate", "ngram", "--base-url", NOBODY],
            ["error: --base-url is another's server: no deployment, no --try and no --speculate with it"],
        ),
        (["run", "nosuch.gguf", "--host", "box"], ["error: box is no machine", "hint:  write --host ssh:HOST"]),
    ],
)
def test_wrong_words(upright: Upright, words: list[str], talk: list[str]) -> None:
    done = upright(*words)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(line.startswith(said) for line, said in zip(lines[: len(talk)], talk, strict=True)), done.stderr
