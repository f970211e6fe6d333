"""Words that cannot be right are refused first: before a machine is probed, and before a server is spoken to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.conftest import Upright
from upright.app.cli.main import cli
from upright.base.errors import UsageError
from upright.proof.benchmark.load import LoadTarget
from upright.serving.endpoint.client import Endpoint

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
        (["plan", ""], ["error: Invalid value for 'MODEL': it is empty"]),
        (["plan", "kimi-k2.6", "--box", ""], ["error: Invalid value for '--box' / '--gpu': it is empty"]),
        (
            ["plan", "kimmi-k2.6", "--box", "hgx-b200"],
            ["error: kimmi-k2.6 is no file", "hint:  near: kimi-k2.6, "],
        ),
        (["fetch", "kimmi-k2.6"], ["error: kimmi-k2.6 is no repository", "hint:  near: kimi-k2.6, "]),
        (["compare"], ["error: Missing argument 'MODEL...'.", "hint:  upright compare --help"]),
        (["recommend", "--box", "nosuch"], ["error: nosuch is no box"]),
        (
            ["recommend", "--ram", "lots"],
            ["error: Invalid value for '--ram' / '--host-memory': 'lots' is"],
        ),
        (
            ["compare", "kimi-k2.6", "--box", "hgx-b200", "--price", "1", "--price", "2"],
            ["error: 2 times --price"],
        ),
        (
            ["compare", "kimi-k2.6", "--box", "hgx-b200", "--api-price", "2"],
            ["error: what breaks even with an API"],
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


@pytest.mark.parametrize("address", ["http://bob:s3cret@127.0.0.1:1/v1", "bob:s3cret@127.0.0.1:1"])
@pytest.mark.parametrize("verb", ["prove", "bench", "top --once", "bench --model m"])
def test_a_password_in_an_address_is_refused_and_never_repeated(verb: str, address: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, [*verb.split(), "--base-url", address], env={"UPRIGHT_HOME": str(tmp_path)})
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith("the address has a user's name or password in it")
    assert "s3cret" not in f"{done.output} {done.exception.message} {done.exception.hint}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("made", [lambda url: Endpoint(url, "m"), lambda url: LoadTarget(url, "m")])
def test_nor_does_a_program_get_it_into_a_record(made: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match="password"):
        made("https://bob:s3cret@example.org")
    made("https://example.org/@bob")


@pytest.mark.parametrize(
    "words",
    [
        "--host-memory nan",
        "--host-memory inf",
        "--host-bandwidth 1e308",
        "--gpu-memory-utilization nan",
        "--draft --acceptance nan",
        "--min-speed inf",
        "--tp 100000000",
        "--pp 1000000",
        "--nodes 100000",
    ],
)
def test_a_number_that_cannot_be_reckoned_with_is_refused_by_its_option(words: str) -> None:
    done = CliRunner().invoke(cli, ["plan", "kimi-k2.6", "--box", "hgx-b200", *words.split()], standalone_mode=False)
    assert isinstance(done.exception, click.BadParameter)
    assert words.split()[-2] in done.exception.format_message()


@pytest.mark.parametrize("price", ["hour=nan", "hour=inf", "hour=1e308"])
def test_a_price_is_a_number(price: str) -> None:
    words = ["fleet", "size", "kimi-k2.6", "--box", "hgx-b200", "--users", "5", "--price", price]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(done.exception, click.BadParameter)


def test_more_stages_than_layers_are_an_answer(upright: Upright) -> None:
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--pp", "64")
    assert done.returncode == 1
    assert "64 stages are asked for, the model has 61 layers" in " ".join(done.stdout.split())


def test_a_name_too_long_for_any_file(upright: Upright) -> None:
    done = upright("plan", "a" * 5000)
    assert (done.returncode, done.stderr) == (2, f"error: File name too long: {'a' * 60}\n")


@pytest.mark.parametrize("words", ["plan kimi-k2.6 --context", "fleet size kimi-k2.6 --users", "catalog list --match"])
def test_an_option_without_its_value_leads_to_the_verbs_own_help(upright: Upright, words: str):
    done = upright(*words.split())
    assert done.returncode == 2
    verb = words.partition(" --")[0].removesuffix(" kimi-k2.6")
    assert f"hint:  upright {verb} --help" in done.stderr
