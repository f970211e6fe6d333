"""render and check as people type them, for boxes that are not here."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Upright
from upright.app.cli import check, plan, render
from upright.app.cli.render import TO
from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.model import ModelFile
from upright.planning.requests.preparation import named_path

BOX = ("--box", "8x-rtx-pro-6000-server-dual-socket")
VLLM = (*BOX, "--engine", "vllm")


def typed(verb: object, *words: str | Path) -> Result:
    done = CliRunner().invoke(verb.command, [str(word) for word in words])  # type: ignore[attr-defined]
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.mark.parametrize("to", TO)
def test_every_target_is_written_into_a_folder(tmp_path: Path, to: str):
    done = typed(render, "kimi-k2.6", *VLLM, "--to", to, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1].startswith("next: upright check kimi-k2.6")
    written = [tmp_path / "out"] if to in ("command", "table") else list((tmp_path / "out").iterdir())
    assert len(written) == 1
    assert (written[0].suffix == ".sh") == os.access(written[0], os.X_OK)


def test_a_recipe_says_that_the_program_was_not_seen():
    done = typed(render, "kimi-k2.6", *BOX, "--engine", "sglang", "--json")
    recipe = json.loads(done.stdout)
    assert recipe["installed"] is False
    assert recipe["program"] == "python3"
    assert "python3 was not looked for: the box is a class of machine" in done.stderr


def test_what_does_not_fit_is_a_no():
    done = typed(render, "moonshotai/Kimi-K2.6", "--box", "4x-rtx-pro-6000-workstation", "--engine", "vllm")
    assert done.exit_code == 1
    assert "next: upright plan moonshotai/Kimi-K2.6" in done.stderr


def test_an_image_that_moves_is_refused():
    for image in ("vllm/vllm-openai:latest", "vllm/vllm-openai"):
        with pytest.raises(UsageError, match="another image tomorrow"):
            typed(render, "kimi-k2.6", *VLLM, "--image", image)


def test_a_container_without_an_image_asks_for_one():
    with pytest.raises(UsageError, match=r"no image of ik_llama\.cpp is known"):
        typed(
            render,
            "kimi-k2.6",
            "--box",
            "2x-rtx-pro-6000-max-q-epyc-9175f",
            "--engine",
            "ik_llama.cpp",
            "--to",
            "compose",
        )


def test_a_plan_file_renders_as_its_model_did(tmp_path: Path):
    plans = json.loads(typed(plan, "kimi-k2.6", *VLLM, "--json").stdout)["plans"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({key: value for key, value in plans[0].items() if key != "fits"}))
    by_file = json.loads(typed(render, path, "--json").stdout)
    by_name = json.loads(typed(render, "kimi-k2.6", *VLLM, "--json").stdout)
    assert by_file["arguments"] == by_name["arguments"]


def test_check_says_who_judged(tmp_path: Path):
    recipe = tmp_path / "recipe.json"
    typed(render, "kimi-k2.6", *VLLM, "-o", recipe)
    done = typed(check, recipe)
    assert done.stdout.startswith("accepted, by the flags recorded of vllm 0.32.0\n")
    assert "weaker" in done.stdout
    again = typed(render, recipe, "--to", "systemd")
    assert "ExecStart=" in again.stdout
    unknown = typed(check, "kimi-k2.6", *VLLM, "--engine-version", "0.24.9")
    assert unknown.stdout.startswith("unverified, ")


def test_wrong_words_are_met_kindly(upright: Upright):
    done = upright("render", "kimi-k2.6", "--box", "no-such-box")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no-such-box is no box")
    assert "Traceback" not in done.stderr


GGUF = ("kimi-k2.6", "--box", "8x-h100")
OF_A_FILE = (*GGUF, "--engine", "ik_llama.cpp")


def test_a_gguf_that_nobody_read_has_no_invented_name():
    done = typed(render, *GGUF, "--to", "shell")
    assert "upright fetch unsloth/Kimi-K2.6-GGUF:UD-Q8_K_XL" in done.stderr
    assert "--hf-repo unsloth/Kimi-K2.6-GGUF:UD-Q8_K_XL" in done.stdout
    assert "--offline" not in done.stdout
    assert "00001" not in done.stdout
    assert "was read" not in done.stdout
    assert "named below" not in done.stdout
    assert "every layer on the GPUs" in done.stdout
    named = typed(render, *GGUF, "--to", "shell", "--model-path", "/data/kimi.gguf")
    assert "MODEL_PATH=${MODEL_PATH:-/data/kimi.gguf}" in named.stdout
    assert "upright fetch" not in named.stderr


def test_a_file_that_is_here_is_named_by_its_path(tiny_model: Path):
    done = typed(render, str(tiny_model), "--box", "1x-rtx-4090", "--context", "1k")
    assert f"--model {tiny_model}" in done.stdout
    assert "--hf-repo" not in done.stdout


@pytest.mark.parametrize("to", ["shell", "docker"])
def test_a_script_asks_for_the_weights_that_it_cannot_name(tmp_path: Path, to: str):
    file = tmp_path / "start.sh"
    file.write_text(typed(render, *OF_A_FILE, "--to", to).stdout)
    run = partial(subprocess.run, ["/bin/bash", str(file)], capture_output=True, text=True, timeout=10, check=False)
    elsewhere = {"PATH": "/nowhere", "HOME": str(tmp_path), "IMAGE": "x"}
    assert "MODEL_PATH: name the first file of the weights" in run(env=elsewhere).stderr
    if to == "docker":
        assert "MODEL_FOLDER: name the folder" in run(env=elsewhere | {"MODEL_PATH": "/model/x.gguf"}).stderr


def test_a_name_that_was_read_is_kept_whatever_is_in_it(tmp_path: Path):
    found = records(catalog.model("kimi-k2.6"))
    model = next(each for each in found if each.format == "gguf")
    part = ModelFile(
        name="Q4/a$(touch x)}-00001-of-00002.gguf",
        size_bytes=0,
        header_bytes=0,
        tensor_bytes=0,
        padding_bytes=0,
        tensors=0,
    )
    path = named_path(model.model_copy(update={"files": (part,)}))
    assert path == "/path/to/the/weights/a$(touch x)}-00001-of-00002.gguf"
    script = typed(render, *OF_A_FILE, "--to", "shell", "--model-path", path).stdout
    line = next(line for line in script.splitlines() if line.startswith("MODEL_PATH="))
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=10, check=False
    )
    assert "name a$(touch x)}-00001-of-00002.gguf, by its path" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ((*VLLM,), "vllm"),
        ((*BOX, "--engine", "sglang"), "python3"),
        (("--box", "2x-rtx-pro-6000-max-q-epyc-9175f", "--model-path", "/data/a b.gguf"), "llama-server"),
        ((*BOX, "--image", "voip-glm-kimi-canonical-20260514"), "docker"),
    ],
    ids=["vllm", "sglang", "ik_llama.cpp", "image"],
)
def test_what_is_printed_can_be_pasted(tmp_path: Path, words: tuple[str, ...], program: str):
    """The very text, in a real shell, with a program in the engine's place that tells how it was called."""
    text = typed(render, "kimi-k2.6", *words).stdout
    recipe = json.loads(typed(render, "kimi-k2.6", *words, "--json").stdout)
    engine = tmp_path / program
    engine.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\necho "key:$VLLM_API_KEY" "proto:$NCCL_P2P_LEVEL"\n')
    engine.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    shell = ["/bin/bash", "-c", f"{text}\necho still here"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=20, check=False, env=variables, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    called, secret = done.stdout.splitlines(), (tmp_path / ".config/upright/key").read_text()
    assert called[-1] == "still here"
    assert len(secret) == 48
    assert not [word for word in called if secret in word and not word.startswith("key:")]
    if program == "vllm":
        assert f"key:{secret} proto:SYS" in called
    given = [setting["value"] for setting in recipe["arguments"] if setting["value"] is not None]
    hidden = {"{key_file}", "{key_config}", "127.0.0.1"}
    assert [word for word in given if word not in hidden and word not in called] == []


def test_explain_is_the_table_of_reasons():
    page = typed(render, "kimi-k2.6", *VLLM, "--explain").stdout
    assert page == typed(render, "kimi-k2.6", *VLLM, "--to", "table").stdout
    assert "the name that clients use" in page


def test_an_image_is_not_written_as_a_bare_engine():
    for to in ("shell", "systemd"):
        with pytest.raises(UsageError, match=f"--to {to} starts the engine of the machine"):
            typed(render, "kimi-k2.6", *VLLM, "--image", "voip-glm-kimi-canonical-20260514", "--to", to)


def test_a_path_with_a_command_in_it_runs_none_when_pasted(tmp_path: Path):
    for program in ("docker", "llama-server"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / program).chmod(0o755)
    box = ("--box", "2x-rtx-pro-6000-max-q-epyc-9175f", "--engine", "ik_llama.cpp")
    for words in ((), ("--image", "me/engine:1")):
        path = "/data/$(touch pwned)/a`touch pwned`.gguf"
        text = typed(render, "kimi-k2.6", *box, *words, "--model-path", path).stdout
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
        subprocess.run(["/bin/bash", "-c", text], env=variables, cwd=tmp_path, check=True, timeout=20)
        assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("kimi-k2.6", "--box", "8x-b200-sxm", "--engine", "vllm"), "--no-enable-prefix-caching"),
        (("kimi-k2.6", *BOX, "--engine", "sglang"), "--disable-radix-cache"),
        (("gpt-oss-20b", "--box", "1x-rtx-4090", "--engine", "llama.cpp"), "--no-cache-prompt"),
    ],
)
def test_prefix_caching_can_be_turned_off(words: tuple[str, ...], flag: str) -> None:
    kept, off = (json.loads(typed(render, *words, *more, "--json").stdout) for more in ((), ("--no-prefix-caching",)))
    names = [[setting["name"] for setting in recipe["arguments"]] for recipe in (kept, off)]
    assert (flag in names[0], flag in names[1]) == (False, True)
    assert "--enable-prefix-caching" not in names[1]


def test_an_engine_without_such_an_option_says_so() -> None:
    box = ("--box", "2x-rtx-pro-6000-max-q", "--ram", "768GB")
    with pytest.raises(UsageError, match="has no option that turns prefix caching off"):
        typed(render, "kimi-k2.6", *box, "--engine", "ik_llama.cpp", "--no-prefix-caching")


def test_tool_calls_that_a_build_lost_are_doubted_where_it_applies() -> None:
    box = ("--box", "2x-rtx-pro-6000-max-q", "--ram", "768GB", "--json")
    notes = {
        engine: json.loads(typed(render, "kimi-k2.6", *box, "--engine", engine).stdout)["notes"]
        for engine in ("llama.cpp", "ik_llama.cpp")
    }
    told = [any("measurements/m406" in note for note in notes[engine]) for engine in notes]
    assert told == [True, False]
