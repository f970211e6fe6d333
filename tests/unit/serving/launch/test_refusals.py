"""What cannot be started is refused before anything is written."""

from __future__ import annotations

import socket

import pytest

from tests.golden.deployments import recipe
from upright.base.errors import LaunchError, UsageError
from upright.base.host import LocalHost
from upright.serving.launch import base_url_for, refuse_missing_runtime, refuse_taken_port


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_a_machine_without_the_runtime(runtime: str, monkeypatch: pytest.MonkeyPatch):
    wanted = recipe("kimi-k26-vllm").model_copy(update={"runtime": runtime})
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(LaunchError, match=f"{runtime} is not on ") as caught:
        refuse_missing_runtime(wanted, LocalHost())
    assert caught.value.hint == f"install {runtime}, or start the engine itself: --runtime process"


def test_a_recipe_without_an_image():
    wanted = recipe("kimi-k26-ik-llama").model_copy(update={"runtime": "podman", "image": None})
    with pytest.raises(UsageError, match="no image of ik_llama"):
        refuse_missing_runtime(wanted, LocalHost())


def test_a_process_needs_no_runtime(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/no/such/folder")
    refuse_missing_runtime(recipe("kimi-k26-vllm"), LocalHost())


def test_a_taken_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LaunchError, match=f"port {port} on 127.0.0.1 cannot be had: Address already in use"):
            refuse_taken_port(f"http://127.0.0.1:{port}")


def test_where_it_answers():
    here = recipe("kimi-k26-vllm")
    assert base_url_for(here) == here.base_url
    assert base_url_for(here, "box") == f"http://127.0.0.1:{here.port}", "our end of the tunnel"
    assert base_url_for(here, "box", 8123) == "http://127.0.0.1:8123"
