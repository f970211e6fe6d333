"""Settings, images and figures of a box: what is not plain is not shared."""

from __future__ import annotations

import pytest

from tests.unit.evidence.share.tampering import copied
from upright.evidence.share.anonymous import shared_box, shared_recipe
from upright.facts.records.base import Figure, from_dict
from upright.facts.records.box import Box
from upright.facts.records.recipe import Recipe, Setting

SECRETS = ("hunter2", "acme", "srv", "10.4.7.12", "gpu07", "/data")
HIDDEN = [
    ("--ssl-keyfile-password", "hunter2"),
    ("--api-key", "hunter2"),
    ("--api-key=hunter2", None),
    ("MY_PASSWORD", "hunter2"),
    ("HF_TOKEN", "hunter2"),
    ("--speculative-config", '{"model":"/data/acme/draft","num_speculative_tokens":3,"api_key":"hunter2"}'),
    ("--lora-modules", "x=/srv/acme/lora"),
    ("--chat-template=/srv/acme/chat.jinja", None),
    ("--master-addr", "10.4.7.12"),
    ("--node", "10.4.7.12"),
    ("--dist-init-addr", "gpu07.acme.internal:20000"),
    ("--leader", "gpu07.acme.internal"),
    ("--hostname", "gpu07"),
    ("--some-text", "acme says: hello"),
    ("/srv/acme/serve", None),
]
PLAIN = [
    ("--max-num-batched-tokens", "8192"),
    ("--tokenizer-mode", "auto"),
    ("--gpu-memory-utilization", "0.92"),
    ("--kv-cache-dtype", "fp8_e4m3"),
    ("--tensor-split", "1,1,1,1"),
    ("--override-tensor", r"blk\.(5[2-9]|60)\.ffn_.*_exps=CUDA1"),
    ("--compilation-config", '{"pass_config": {"fuse_allreduce_rms": true}}'),
    ("--api-key-file", "{key_file}"),
    ("--model", "tiny-kimi-q8_0.gguf"),
    ("NCCL_P2P_LEVEL", "SYS"),
    ("--jinja", None),
]


def recipe_with(name: str, text: str | None) -> Recipe:
    setting = Setting(name=name, value=text, reason="")
    recipe = from_dict(Recipe, copied()["predicate"]["records"]["recipe"])
    return recipe.model_copy(update={"arguments": (setting,), "environment": (setting,)})


@pytest.mark.parametrize(("name", "text"), HIDDEN, ids=lambda part: str(part)[:24])
def test_what_may_be_a_secret_is_not_shared(name: str, text: str | None) -> None:
    shared = shared_recipe(recipe_with(name, text))
    told = "".join(f"{setting.name} {setting.value}" for setting in (*shared.arguments, *shared.environment))
    told = told.replace("chat.jinja", "")
    assert [secret for secret in SECRETS if secret in told] == []
    assert shared_recipe(shared) == shared, "a reader comes to the same"


@pytest.mark.parametrize(("name", "text"), PLAIN, ids=lambda part: str(part)[:24])
def test_what_is_plain_stays(name: str, text: str | None) -> None:
    (setting,) = shared_recipe(recipe_with(name, text)).arguments
    assert (setting.name, setting.value) == (name, text)


@pytest.mark.parametrize(
    ("image", "shared"),
    [
        ("registry.acme.internal:5000/team/vllm:1", "[redacted]/team/vllm:1"),
        ("localhost/vllm:1", "[redacted]/vllm:1"),
        ("vllm/vllm-openai:v0.32.0", "vllm/vllm-openai:v0.32.0"),
        ("ghcr.io/ggml-org/llama.cpp:server", "ghcr.io/ggml-org/llama.cpp:server"),
        ("[redacted]/team/vllm:1", "[redacted]/team/vllm:1"),
    ],
)
def test_an_image_names_no_private_registry(image: str, shared: str) -> None:
    recipe = recipe_with("--jinja", None).model_copy(update={"image": image, "packages": ("x @ https://a:b@acme/x",)})
    assert shared_recipe(recipe).image == shared
    assert shared_recipe(recipe).packages == ("[redacted]",)


def test_figures_of_a_box_keep_no_path() -> None:
    box = from_dict(Box, copied()["predicate"]["records"]["box"])
    told = Figure(value=1, basis="probed", source="least of /proc/meminfo and /sys/fs/cgroup/acme.slice/memory.max")
    shared = shared_box(box.model_copy(update={"memory_available_bytes": told}))
    assert shared.memory_available_bytes.source == "least of /proc/meminfo and [path]"
    assert shared_box(shared) == shared
