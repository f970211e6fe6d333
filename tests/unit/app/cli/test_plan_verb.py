"""upright plan, as a user types it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from upright.planning.choosing.artifacts import artifact_choice


def test_json_holds_what_a_program_needs(upright):
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["fits"] is True
    first = answer["plans"][0]
    assert (first["engine"], first["fits"], first["objections"]) == ("vllm", True, [])
    assert first["kv"]["bytes_per_token"] == 70_272
    assert first["kv"]["low_tokens"] < first["kv"]["capacity_tokens"] < first["kv"]["high_tokens"]
    assert {"device", "term", "bytes", "low_bytes", "high_bytes", "basis", "why"} <= first["ledger"][0].keys()
    assert done.stderr == "next: upright render kimi-k2.6 --box 8x-rtx-pro-6000-server\n"


def test_no_is_exit_code_one_and_the_next_command_works(upright):
    done = upright("plan", "moonshotai/Kimi-K2.6", "--box", "4x-rtx-pro-6000-server")
    assert done.returncode == 1
    assert "Kimi-K2.6: not known, it depends on system RAM" in done.stdout
    for _ in range(2):  # the first asks for the system RAM that was not specified, the second keeps it
        words = done.stderr.splitlines()[-1].removeprefix("next: upright ").split()
        assert "--ram" in words
        done = upright(*words)
    assert done.returncode == 0, done.stdout


def test_system_ram_that_nobody_told_is_needed_not_there(upright):
    page = upright("plan", "qwen3.5-397b-a17b", "--box", "1x-rtx-pro-6000-server").stdout
    (host,) = (line for line in page.splitlines() if line.startswith("  host "))
    assert host.endswith(" GiB needed")
    told = upright("plan", "qwen3.5-397b-a17b", "--box", "1x-rtx-pro-6000-server", "--ram", "64GB").stdout
    assert "GiB needed" not in told


def test_a_context_that_the_model_was_not_made_for_is_no_users(upright):
    done = upright("plan", "kimi-k2-thinking", "--box", "hgx-b200", "--context", "512k")
    assert done.returncode == 1
    assert "0 users x 524,288 tokens; one user up to 262,144" in done.stdout, "the pool would hold it, the model not"


def test_what_fits_as_asked_is_offered_before_a_shorter_context(upright):
    words = ("--kv-dtype", "f16", "--box", "1x-rtx-4090", "--host-memory", "768", "--users", "1")
    done = upright("plan", "moonshotai/Kimi-K2.6", *words)
    assert done.returncode == 1
    offers = " ".join(done.stdout.partition("What would fit")[2].split())
    assert offers.index("65,536 tokens of context") < offers.index("8,192 tokens of context")
    assert "a lower-bit quant" in offers
    again = upright(*done.stderr.splitlines()[-1].removeprefix("next: upright ").split())
    assert again.returncode == 0, again.stdout


def test_a_shorter_context_is_in_the_next_command_with_all_that_was_typed(upright):
    typed = ("--box", "1x-rtx-4090", "--host-memory", "768", "--users", "2", "--engine", "vllm")
    done = upright("plan", "ubergarm/Kimi-K2.6-GGUF:Q4_X", *typed)
    assert done.returncode == 1
    words = done.stderr.splitlines()[-1].removeprefix("next: upright ").split()
    again = upright(*words)
    assert again.returncode == 0, (words, again.stdout)
    assert words[words.index("--users") + 1] == "2"


def test_a_larger_share_of_the_gpus_is_offered_where_it_brings_the_context_within_reach(upright):
    words = ("nvidia/MiniMax-M2.7-NVFP4", "--box", "2x-rtx-pro-6000-workstation", "--context", "180224")
    words += ("--engine", "vllm", "--kv-dtype", "bf16")
    done = upright("plan", *words)
    assert done.returncode == 1
    assert "No artifact" not in done.stdout
    next_line = f"next: upright plan {' '.join(words)} --gpu-memory-utilization 0.94"
    assert done.stderr.splitlines()[-1] == next_line
    assert upright(*next_line.removeprefix("next: upright ").split()).returncode == 0


def test_stages_that_the_box_has_no_gpus_for_are_dropped(upright):
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--tp", "8", "--pp", "2")
    assert done.returncode == 1
    assert "try --pp 1" in done.stdout
    assert "KV cache   " not in done.stdout, "of 16 GPUs, and the box has 8"
    assert done.stderr == "next: upright plan kimi-k2.6 --box 8x-rtx-pro-6000-server --tp 8 --pp 1\n"
    assert upright(*done.stderr.removeprefix("next: upright ").split()).returncode == 0


def test_stages_alone_leave_the_ranks_to_the_planner(upright):
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--pp", "2")
    assert done.returncode == 0
    assert "TP4 · PP2" in done.stdout


def test_ranks_that_the_engine_does_not_have_are_left_out_of_the_next_command(upright):
    words = ("plan", "ubergarm/Kimi-K2.6-GGUF:Q4_X", "--box", "8x-rtx-pro-6000-server", "--engine", "llama.cpp")
    done = upright(*words, "--tp", "8")
    assert (done.returncode, done.stderr) == (1, f"next: upright {' '.join(words)}\n")


def test_a_speed_out_of_reach_is_the_reason_and_stays_in_what_is_advised(upright):
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--min-speed", "500")
    assert done.returncode == 1
    assert "500 tok/s are asked for" in done.stdout
    assert "No artifact of this model fits" not in done.stdout
    assert done.stderr == "next: upright plan kimi-k2.6 --box 8x-rtx-pro-6000-server --min-speed 60\n"
    assert upright(*done.stderr.removeprefix("next: upright ").split()).returncode == 0


def test_the_capacity_is_of_the_placement_that_is_shown_and_what_can_be_had_fits(upright):
    """More context moves experts off the GPU: each placement has its own KV cache, and holds what was asked."""
    words = ("plan", "unsloth/Kimi-K2.6-GGUF:UD-Q8_K_XL", "--box", "1x-rtx-4090", "--host-memory", "768", "--json")
    fits = []
    for context in (8192, 16_384, 22_528, 65_536):
        answer = json.loads(upright(*words, "--context", str(context)).stdout)
        fits.append(answer["fits"])
        assert (answer["plans"][0]["kv"]["low_tokens"] >= context) is answer["fits"]
    assert fits == [True, True, True, False]
    no = answer["plans"][0]["objections"][0]["message"]
    assert "at the upper ends of the figures; by the best ones it takes 16.7 GiB" in no


def test_a_model_without_a_gguf_asks_for_one_by_its_name(upright):
    done = upright("plan", "deepseek-v4-pro", "--box", "1x-rtx-4090", "--host-memory", "256")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert (
        "the catalogue has no GGUF of this model: name one, as OWNER/REPO:QUANT, or plan a type, as MODEL:Q4_K_M."
        in said
    )
    assert "Nothing in the catalogue fits" not in said


def test_a_repository_that_the_catalogue_does_not_know_is_read(upright):
    asked = []
    with pytest.raises(LookupError):
        artifact_choice("somebody/New-Model", lambda text: asked.append(text) or {}["read"])
    assert asked == ["somebody/New-Model"]


def test_a_million_tokens_do_not_touch_the_next_column(upright):
    done = upright("plan", "glm-5.2", "--box", "8x-rtx-pro-6000-server")
    assert "1,048,576  1,048,576 tokens for each user" in done.stdout


def test_a_way_that_does_not_fit_has_no_speed_in_the_table(upright):
    done = upright("plan", "kimi-k2.6", "--box", "2x-rtx-pro-6000-max-q-epyc-9175f", "--all")
    rows = done.stdout.partition("\n  configuration ")[2].splitlines()
    refused = [row for row, below in pairwise(rows) if below.startswith("    no: ")]
    assert refused
    assert all(row.split()[-4:-1] == ["-", "-", "-"] for row in refused), refused


def test_wishes_that_only_judge_are_not_handed_to_render(upright):
    done = upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--min-speed", "50", "--use", "chat")
    assert done.stderr == "next: upright render kimi-k2.6 --box 8x-rtx-pro-6000-server --context 32768\n"
    assert upright(*done.stderr.removeprefix("next: upright ").split()).returncode == 0


def test_a_file_on_this_machine(upright, tiny_model):
    done = upright("plan", tiny_model, "--context", "2k", "--users", "2", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)["plans"][0]
    assert (plan["context_tokens"], plan["goal"]["users"]) == (2048, 2)
    assert {line["device"] for line in plan["ledger"]} == {"host"}


def test_misuse_is_exit_code_two_with_a_hint(upright, tmp_path):
    for words, complaint in (
        (("plan", "kimi-k2.6", "--box", "9x-rtx-9090"), "9x-rtx-9090"),
        (("plan", "kimi-k2.6", "--engine", "ollama"), "no engine named ollama"),
        (("plan", "kimi-k2.6", "--kv-dtype", "fp3"), "no cache type named fp3"),
        (("plan", "kimi-k2.6", "--context", "lots"), "lots"),
        (("plan", "kimi-k2.6", "--gpu-memory-utilization", "90"), "--gpu-memory-utilization is a share"),
        (("plan", str(tmp_path / "none.gguf")), "none.gguf"),
    ):
        done = upright(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert complaint in done.stderr
        assert "hint:" in done.stderr
        assert done.stdout == ""


def test_a_number_of_gpus_with_what_the_person_knows_of_the_host(upright):
    words = ("kimi-k2.6", "--box", "4x-rtx-5090", "--host-memory", "768")
    unknown = upright("plan", *words)
    assert unknown.returncode == 0, unknown.stderr
    assert "note system RAM is assumed at 307 GB/s: 8x DDR5-4800, by the amount of RAM" in unknown.stdout
    slow, fast = (upright("plan", *words, "--host-bandwidth", each, "--json") for each in ("90", "358"))
    speeds = [json.loads(done.stdout)["plans"][0]["speed"]["decode"]["best"] for done in (slow, fast)]
    assert 2 < speeds[1] / speeds[0] < 4, "experts offloaded to CPU wait for it"
    assert fast.stderr.endswith("--box 4x-rtx-5090 --ram 768 --host-bandwidth 358\n")
    render = upright(*fast.stderr.removeprefix("next: upright ").split())
    assert render.returncode == 0, render.stderr


def test_a_plan_of_one_quant_is_rendered_from_its_file(upright, tmp_path):
    file = tmp_path / "plan.json"
    words = ("--box", "1x-rtx-5090", "--host-memory", "768")
    assert upright("plan", "kimi-k2.6", *words, "-o", file).returncode == 0
    done = upright("render", file, "--host-memory", "768")
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["model"] in done.stdout


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        (("--box", "2x-rtx-5090", "--ram", "512GB"), ("--box", "2x-rtx-5090", "--host-memory", "512")),
        (("--box", "2x RTX 5090", "--ram", "512GiB"), ("--box", "2x-rtx-5090", "--host-memory", "512")),
        (
            ("--box", "rtx-5090", "--ram", "0.5TB", "--host-bandwidth", "8xDDR5-6400", "--engine", "llamacpp"),
            ("--box", "1x-rtx-5090", "--host-memory", "512", "--host-bandwidth", "409.6", "--engine", "llama.cpp"),
        ),
        (("--box", "8x-h100-sxm", "--engine", "vLLM"), ("--box", "8x-h100-sxm", "--engine", "vllm")),
        (  # a processor, and channels that one socket has, are those of each
            ("--box", "8x-rtx-pro-6000-server-dual-socket", "--host-bandwidth", "EPYC 9554"),
            ("--box", "8x-rtx-pro-6000-server-dual-socket", "--host-bandwidth", "921.6"),
        ),
        (
            ("--box", "8x-rtx-pro-6000-server-dual-socket", "--host-bandwidth", "12xDDR5-4800"),
            ("--box", "8x-rtx-pro-6000-server-dual-socket", "--host-bandwidth", "921.6"),
        ),
    ],
)
def test_words_as_people_type_them(upright, typed: tuple[str, ...], plain: tuple[str, ...]):
    pages = [upright("plan", "gpt-oss-120b", "--context", "64k", *words, "--json") for words in (typed, plain)]
    assert pages[0].stdout == pages[1].stdout != ""


def test_a_plans_file_is_asked_again_with_what_is_typed_beside_it(upright, tmp_path):
    file = tmp_path / "plan.json"
    upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--users", "2", "--context", "32k", "-o", file)
    again = json.loads(upright("plan", file, "--json").stdout)["plans"][0]
    assert (again["context_tokens"], again["goal"]["users"]) == (32_768, 2)
    other = json.loads(upright("plan", file, "--context", "64k", "--users", "1", "--json").stdout)["plans"][0]
    assert (other["context_tokens"], other["goal"]["users"]) == (65_536, 1)
    rendered = upright("render", file, "--context", "48k").stdout
    assert "--max-model-len 49152" in rendered


def test_recommend_for_one_engine_keeps_to_it(upright):
    words = ("--box", "8x-rtx-pro-6000-server", "--engine", "sglang")
    done = upright("recommend", *words, "--json")
    assert done.returncode == 0, done.stderr
    assert {offer["engine"] for offer in json.loads(done.stdout)["offers"]} == {"sglang"}
    assert done.stderr.splitlines()[-1].endswith("--engine sglang"), "the next command keeps to it too"
