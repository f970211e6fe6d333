"""A model in the hub cache is links into its repository's blobs: a container must see both."""

from __future__ import annotations

import pytest

from tests.golden.deployments import recipe
from upright.planning.rendering.container import container_of

ROOT = "/srv/hf/hub/models--owner--kimi"


@pytest.mark.parametrize("below", ["snapshots/0123abcd", "snapshots/0123abcd/IQ3_K/kimi-00001-of-00002.gguf"])
def test_the_whole_repository_is_mounted(below: str) -> None:
    before = recipe("kimi-k26-vllm")
    path = f"{ROOT}/{below}"
    arguments = tuple(
        setting.model_copy(update={"value": path}) if setting.value == before.model_path else setting
        for setting in before.arguments
    )
    inside = container_of(before.model_copy(update={"model_path": path, "arguments": arguments}))
    mount = inside.mounts[0]
    assert (mount.source, mount.target, mount.read_only) == (ROOT, "/model", True)
    assert f"/model/{below}" in inside.words
