"""Which judge speaks, and that each of them can say no."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.base.errors import EngineError
from upright.facts.records.recipe import Recipe, Setting
from upright.serving.check import check
from upright.serving.check.check import _interpreter
from upright.serving.check.payload.parser import blame, refusals


def with_setting(made: Recipe, name: str, value: str | None = None) -> Recipe:
    extra = Setting(name=name, value=value, reason="a test")
    return made.model_copy(update={"arguments": (*made.arguments, extra)})


def test_recorded_flags_of_the_very_version_accept_and_say_that_they_are_weaker():
    found = check(recipe("kimi-k26-vllm"))
    assert (found.verdict, found.judge, found.judged_version) == ("accepted", "recorded", "0.32.0")
    assert any("weaker" in remark for remark in found.remarks)


def test_a_flag_that_the_version_has_not_is_named():
    found = check(with_setting(recipe("kimi-k26-vllm"), "--swap-space", "4"))
    assert found.verdict == "refused"
    assert [each.setting for each in found.refusals] == ["--swap-space 4"]
    assert found.refusals[0].message == "vllm 0.32.0 has no --swap-space"


def test_a_version_between_recordings_is_unverified():
    made = recipe("kimi-k26-vllm").model_copy(update={"engine_version": "0.24.7"})
    found = check(made)
    assert (found.verdict, found.judge, found.judged_version) == ("unverified", "neighbour", "0.24.0")


def test_no_version_at_all_is_unverified():
    found = check(recipe("kimi-k26-vllm").model_copy(update={"engine_version": None}))
    assert (found.verdict, found.judge) == ("unverified", "nobody")


def test_an_interpreter_without_the_engine_is_an_error_of_its_own():
    with pytest.raises(EngineError, match="could not judge for vllm"):
        check(recipe("kimi-k26-vllm"), program="python3")
    with pytest.raises(EngineError, match="cannot be r"):
        check(recipe("kimi-k26-vllm"), program="/nowhere/python")


def test_after_a_refusal_the_rest_is_still_judged():
    def parse(words: list[str]) -> str | None:
        bad = next((word for word in words if word.startswith("--bad")), None)
        return f"unrecognized arguments: {bad}" if bad else None

    found = refusals(parse, [["--good", "1"], ["--bad-one", "x"], ["--bad-two"]])
    assert found == [
        (["--bad-one", "x"], "unrecognized arguments: --bad-one"),
        (["--bad-two"], "unrecognized arguments: --bad-two"),
    ]


def test_a_message_that_names_no_setting_ends_the_questions():
    assert refusals(lambda words: "no", [["--good"]]) == [([], "no")]
    assert blame("invalid choice: 'nope'", [["--a", "b"], ["--c", "nope"]]) == ["--c", "nope"]


def test_small_numbers_are_not_blamed_for_a_message_that_happens_to_hold_them():
    settings = [["--parallel", "1"], ["--threads", "8"], ["--bogus", "81"]]
    assert blame("error: invalid argument: --bogus", settings) == ["--bogus", "81"]
    assert blame("error: 81 is not known", settings) is None
    assert blame("error: q8_0x is not known", [["--cache-type-k", "q8_0"]]) is None
    assert blame("error: q8_0 is not known", [["--cache-type-k", "q8_0"]]) == ["--cache-type-k", "q8_0"]


def test_a_llama_server_refuses_each_by_its_name(tmp_path: Path):
    program = tmp_path / "llama-server"
    program.write_text(
        '#!/bin/sh\nfor word; do case "$word" in\n'
        '--bogus*) echo "error: invalid argument: $word" >&2; exit 1;;\nesac; done\n'
    )
    program.chmod(0o755)
    made = with_setting(with_setting(recipe("kimi-k26-ik-llama"), "--bogus-8", "81"), "--bogus-1")
    found = check(made, program=str(program))
    assert [each.setting for each in found.refusals] == ["--bogus-8 81", "--bogus-1"]


@pytest.mark.parametrize(
    "first_lines",
    [
        "#!/bin/sh\n",
        "#!/usr/bin/env python3\n",
        "#!/usr/bin/env -S python3 -I\n",
        "#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
        "#!/gone/bin/python3\n",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_the_interpreter_behind_a_command(first_lines: str, tmp_path: Path):
    folder = tmp_path / "a long path" / "bin"
    folder.mkdir(parents=True)
    python, command = folder / "python", folder / "vllm"
    python.write_bytes(b"\x7fELF")
    command.write_text(first_lines.format(python=python) + "import vllm\n")
    assert _interpreter(str(command)) == str(python)


def test_a_bare_name_is_looked_up_where_no_environment_is(tmp_path: Path):
    command = tmp_path / "vllm"
    command.write_text("#!/usr/bin/env python3\n")
    assert _interpreter(str(command)) == shutil.which("python3")
    command.write_text(f"#!{sys.executable} -I\n")
    assert _interpreter(str(command)) == sys.executable
