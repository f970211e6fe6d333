"""An exit code and a log become words that a person can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.serving.launch.supervisor import exit_reason, last_log_line

NO_RLIMIT = (
    "Error: runc: runc create failed: error setting rlimit type 7: operation not permitted: OCI permission denied\n"
)
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("runtime", "code", "log", "words"),
    [
        ("process", 3, "", "vllm ended with code 3"),
        ("process", None, "", "vllm ended"),
        ("process", -9, "", "vllm was killed by SIGKILL"),
        ("process", -99, "", "vllm was killed by signal 99"),
        ("process", 137, "", "vllm ended with code 137"),
        ("podman", 137, "", "vllm was killed by SIGKILL"),
        ("docker", 143, "", "vllm was killed by SIGTERM"),
        ("podman", 126, NO_RLIMIT, "podman could not run it: " + NO_RLIMIT.removeprefix("Error: ").strip()),
        ("docker", 125, f"docker: {NO_DAEMON}\n", f"docker could not run it: {NO_DAEMON}"),
        ("podman", 127, "", "vllm ended with code 127"),
    ],
)  # fmt: skip
def test_how_it_ended(runtime: str, code: int | None, log: str, words: str, tmp_path: Path):
    file = tmp_path / "engine.log"
    file.write_text(log)
    assert exit_reason(recipe("kimi-k26-vllm").model_copy(update={"runtime": runtime}), code, file) == words


def test_the_last_words_of_a_pull(tmp_path: Path):
    file = tmp_path / "engine.log"
    assert last_log_line(file, 1) == "ended with code 1"
    file.write_text("Trying to pull localhost/x:1...\nError: initializing source: connection refused\n\n")
    assert last_log_line(file, 125) == "initializing source: connection refused"
