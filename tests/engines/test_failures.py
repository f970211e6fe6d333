"""Real failures of the real llama-server, each named by its code with the right remedy; four and more healed."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.command import command
from tests.engines.test_weak import few, proved
from tests.ports import free_port
from upright.base.errors import LaunchError
from upright.base.host import LocalHost
from upright.facts import store
from upright.facts.records.base import from_json
from upright.facts.records.diagnosis import Attempts, Diagnosis
from upright.facts.records.evidence import Evidence
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.serving.diagnose import LogContext, diagnose_file
from upright.serving.launch import launch, stop
from upright.serving.launch.healing import diagnose_deployment, heal

pytestmark = pytest.mark.engine
MIB = 1 << 20
Falls = Callable[..., Diagnosis]


@pytest.fixture
def falls(llama_server: Path, tiny_model: Path, tmp_path: Path) -> Falls:
    """Runs llama-server until it ends, and says what its log tells."""

    def run(*words: str | Path, model: Path | None = None, memory_bytes: int | None = None) -> Diagnosis:
        log = tmp_path / "engine.log"

        def limited() -> None:
            if memory_bytes is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

        argv = [str(llama_server), "-m", str(model or tiny_model), "--host", "127.0.0.1", *map(str, words)]
        with log.open("wb") as out:
            code = subprocess.run(argv, stdout=out, stderr=out, timeout=60, preexec_fn=limited, check=False).returncode
        assert code != 0, "it should have fallen"
        return diagnose_file(log)

    return run


def first(found: Diagnosis) -> tuple[str | None, str, str | None]:
    assert found.failed
    assert found.cause is not None, found.excerpt
    remedy = found.cause.remedies[0]
    return found.code, remedy.do, remedy.name or remedy.value


def test_the_port_is_taken(falls: Falls):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert first(falls("--port", other.getsockname()[1])) == ("llama-port-taken", "other_port", None)


def test_the_file_is_cut_short(falls: Falls, tiny_model: Path, tmp_path: Path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny_model.read_bytes()[:600_000])
    assert first(falls(model=cut))[:2] == ("llama-file-incomplete", "by_hand")


def test_a_type_that_only_the_fork_knows(falls: Falls, tmp_path: Path):
    from tests.sparse_models import write_gguf

    odd = tmp_path / "iq3_k.gguf"
    write_gguf(odd, {"general.architecture": "deepseek2"}, [("blk.1.ffn_gate_exps.weight", "IQ3_K", (256, 4))])
    assert first(falls(model=odd)) == ("llama-ik-type-on-mainline", "use_engine", "ik_llama.cpp")


def test_a_flag_that_this_build_does_not_know(falls: Falls):
    assert first(falls("-mla", "3")) == ("llama-unknown-flag", "unset_flag", "-mla")


def test_a_value_that_this_build_does_not_take(falls: Falls):
    assert first(falls("-ctk", "q6_0")) == ("llama-flag-value", "unset_flag", "-ctk")


def test_two_cache_types_on_an_mla_model(falls: Falls):
    assert first(falls("-ctk", "q8_0")) == ("llama-cache-types-differ", "set_flag", "-ctv")


def test_memory_runs_out(falls: Falls):
    found = falls("-c", "8000000", "-np", "1", memory_bytes=1500 * MIB)
    assert first(found) == ("host-memory-refused", "lower_flag", "-c")
    assert "llama-out-of-memory" in [each.code for each in found.findings]


def test_a_key_is_missing(falls: Falls, tiny_model: Path, tmp_path: Path):
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(tiny_model.read_bytes().replace(b"deepseek2.block_count", b"deepseek2.block_cuont", 1))
    assert first(falls(model=odd))[0] == "llama-missing-key"


def test_a_file_that_is_not_there(falls: Falls, tmp_path: Path):
    assert first(falls(model=tmp_path / "none.gguf"))[0] == "llama-file-missing"


def test_a_device_that_this_build_does_not_have(falls: Falls):
    assert first(falls("-ot", "exps=CUDA0"))[0] == "llama-unknown-buffer-type"


@pytest.mark.skipif("amx_tile" not in Path("/proc/cpuinfo").read_text(), reason="this processor has no AMX")
def test_the_amx_backend_aborts_on_mla(llama_server: Path, tiny_model: Path, tmp_path: Path):
    """Only the sapphirerapids backend is put where the program looks; the cache holds the plain one alone."""
    libraries = llama_server.parent / "root/usr/lib/x86_64-linux-gnu"
    folder = tmp_path / "lib"
    subprocess.run(["cp", "-rsL", libraries, folder], check=True)
    (folder / "libggml-cpu-haswell.so").unlink()
    (folder / "libggml-cpu-sapphirerapids.so").symlink_to(libraries / "ggml/backends0/libggml-cpu-sapphirerapids.so")
    loader = folder / "ld-linux-x86-64.so.2"
    content = loader.resolve().read_bytes()
    loader.unlink()
    loader.write_bytes(content)
    loader.chmod(0o755)
    log = tmp_path / "engine.log"
    argv = [loader, "--library-path", f"{folder}:{folder}/llama", libraries.parents[1] / "bin/llama-server"]
    with log.open("wb") as out:
        subprocess.run([*argv, "-m", tiny_model], stdout=out, stderr=out, timeout=60, check=False)
    assert first(diagnose_file(log)) == ("llama-amx-mla-abort", "set_flag", "--no-repack")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], check=False).returncode != 0:
        pytest.skip("a small disk needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def other_bytes(model: Path, old: bytes, new: bytes, to: Path) -> Path:
    to.write_bytes(model.read_bytes().replace(old, new))
    return to


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"<!DOCTYPE html>", "gguf-not-gguf", id="a page of the hub"),
        pytest.param(b"", "gguf-not-gguf", id="an empty file"),
        pytest.param(b"GGUF\x63\x00\x00\x00" + bytes(64), "gguf-version", id="a format of the future"),
    ],
)
def test_a_file_that_is_no_model(content: bytes, code: str, falls: Falls, tmp_path: Path):
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(content)
    assert first(falls(model=odd))[0] == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"deepseek2", b"deepseekX", "llama-unknown-architecture"),
        (b"blk.0.attn_norm.weight", b"blk.0.attn_nirm.weight", "llama-tensors-do-not-fit"),
    ],
)
def test_a_model_of_another_kind(old: bytes, new: bytes, code: str, falls: Falls, tiny_model: Path, tmp_path: Path):
    assert first(falls(model=other_bytes(tiny_model, old, new, tmp_path / "odd.gguf")))[0] == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "code"),
    [("--mmproj", "llama-mmproj"), ("--lora", "llama-lora")],
)
def test_a_model_in_the_place_of_another_part(flag: str, code: str, falls: Falls, tiny_model: Path):
    assert first(falls(flag, tiny_model))[0] == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--chat-template-file", "none.jinja"), "llama-flag-value"),
        (("--split-mode", "wild"), "llama-flag-value"),
        (("-md", "none.gguf"), "llama-file-missing"),
        (("-dev", "CUDA7"), "llama-backend-unloadable"),
    ],
)
def test_a_setting_that_leads_nowhere(words: tuple[str, ...], code: str, falls: Falls):
    assert first(falls(*words))[0] == code


def test_an_address_of_another_machine(falls: Falls):
    found = falls("--host", "192.0.2.1", "--port", free_port())
    assert first(found) == ("llama-address-not-here", "set_flag", "--host")
    assert "192.0.2.1" in (found.cause.title if found.cause else "")


Serving = Callable[..., tuple[str, Callable[[], Diagnosis]]]


@pytest.fixture
def serving(llama_server: Path, tiny_model: Path, tmp_path: Path) -> Iterator[Serving]:
    """A llama-server that stands: its address, and what its log tells once it was asked to end.

    A thread of its own writes the log, so an answer can be here before the line about it is: the log is whole only
    when the process has ended.
    """
    started: list[subprocess.Popen[bytes]] = []

    def run(*words: str | Path) -> tuple[str, Callable[[], Diagnosis]]:
        log, port = tmp_path / "engine.log", free_port()
        argv = [llama_server, "-m", tiny_model, "--host", "127.0.0.1", "--port", str(port), *words]
        with log.open("wb") as out:
            started.append(subprocess.Popen(argv, stdout=out, stderr=out))
        deadline = time.monotonic() + 60
        while "listening on" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)

        def told() -> Diagnosis:
            started[-1].terminate()
            started[-1].wait(30)
            return diagnose_file(log)

        return f"http://127.0.0.1:{port}", told

    yield run
    for process in started:
        process.terminate()
        process.wait(30)


def test_the_disk_is_full(serving: Serving, small_disk: Path):
    address, told = serving("-np", "1", "-c", "4096", "--slot-save-path", f"{small_disk}/")
    prompt = "hello world " * 30
    httpx2.post(f"{address}/completion", json={"prompt": prompt, "n_predict": 4, "id_slot": 0}, timeout=60)
    saved = httpx2.post(f"{address}/slots/0?action=save", json={"filename": "a.bin"}, timeout=60)
    assert saved.status_code == 500
    assert first(told())[0] == "no-space-left"


def test_the_prompt_is_longer_than_the_context(serving: Serving):
    address, told = serving("-np", "2", "-c", "1024")
    asked = {"messages": [{"role": "user", "content": "hello world " * 2000}]}
    assert httpx2.post(f"{address}/v1/chat/completions", json=asked, timeout=60).status_code == 400
    assert first(told()) == ("llama-prompt-too-long", "raise_flag", "-c")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"grammar": "root ::= ("}, "llama-grammar-unparsed"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
         "client-image-refused"),
    ],
    ids=["a grammar", "an image"],
)  # fmt: skip
def test_a_request_that_the_server_cannot_serve(request_: dict[str, object], code: str, serving: Serving):
    """It is named; what only a client did wrong fails no engine."""
    address, told = serving("-np", "1", "-c", "512")
    asked = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4} | request_
    assert httpx2.post(f"{address}/v1/chat/completions", json=asked, timeout=60).status_code >= 400
    found = told()
    assert code in [finding.code for finding in found.findings]
    assert found.failed == (not code.startswith("client-"))


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGSEGV, "exit-segfault"), (signal.SIGILL, "exit-illegal-instruction"),
        (signal.SIGBUS, "exit-bus-error"), (signal.SIGKILL, "exit-137"),
    ],
)  # fmt: skip
def test_a_signal_ends_it(number: signal.Signals, code: str, llama_server: Path, tiny_model: Path, tmp_path: Path):
    """Its log says nothing; the exit code does, also when a shell or a container hands it on."""
    log = tmp_path / "engine.log"
    words = f"exec {shlex.quote(str(llama_server))} -m {shlex.quote(str(tiny_model))} --port {free_port()}"
    with log.open("wb") as out:
        engine = subprocess.Popen(["sh", "-c", words], stdout=out, stderr=out, start_new_session=True)
    deadline = time.monotonic() + 60
    while "listening on" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(engine.pid, number)
    ended = engine.wait(30)
    for told in {ended, -ended + 128 if ended < 0 else ended}:
        found = diagnose_file(log, around=LogContext(engine="llama.cpp", exit_code=told, failed=True))
        assert found.code == code, (told, found.excerpt)


# Healing: the same failures, and nobody there to mend them.


@pytest.fixture(scope="module")
def recipe(llama_server: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """What `upright up` would start, before anything is broken in it."""
    home, path = tmp_path_factory.mktemp("home"), f"{llama_server.parent}:{os.environ['PATH']}"
    words = ("up", tiny_model, "--context", "2k", "--port", str(free_port()), "--dry-run", "--json")
    argv = [*command(), *map(str, words)]
    environment = {**os.environ, "UPRIGHT_HOME": str(home), "PATH": path}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return from_json(Recipe, done.stdout)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeploymentDir]:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    made = store.create("healed")
    yield made
    if (made.path / "deployment.json").exists():
        stop(made)


def changed(recipe: Recipe, name: str, value: str | None) -> Recipe:
    """With another value for a flag, or with a flag more."""
    kept = tuple(each for each in recipe.arguments if each.name != name)
    return recipe.model_copy(update={"arguments": (*kept, Setting(name=name, value=value, reason="broken on purpose"))})


def codes(way: Attempts) -> list[str | None]:
    return [each.code if each.result != "ready" else "stands" for each in way.attempts]


def test_three_faults_are_healed_one_at_a_time(recipe: Recipe, directory: DeploymentDir):
    """An unknown flag, a V cache of another type, and a port that somebody else has."""
    broken = changed(changed(recipe, "-mla", "3"), "--cache-type-v", "q8_0")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        broken = changed(broken, "--port", str(port)).model_copy(update={"port": port})
        healed = heal(broken, directory, LocalHost())
    assert codes(healed.way) == ["host-port-held", "llama-unknown-flag", "llama-cache-types-differ", "stands"]
    assert healed.deployment is not None
    assert healed.deployment.state == "ready"
    assert [each.change.do for each in healed.way.attempts if each.change] == ["other_port", "unset_flag", "set_flag"]
    kept = json.loads((directory.path / "attempts.json").read_text())
    assert kept["stands"]
    assert len({each["recipe"] for each in kept["attempts"]}) == 4
    final = directory.read(Recipe)
    assert "-mla" not in final.argv
    assert final.port != port


def test_an_engine_that_somebody_stopped_and_one_that_is_refused_are_told(
    recipe: Recipe, directory: DeploymentDir, llama_server: Path, tiny_model: Path
):
    """SIGSTOP leaves no line in a log; an `up` on a port that is held starts nothing, and is not the run before."""
    deployment = launch(recipe, directory)
    assert deployment.process is not None
    os.killpg(deployment.process.pid, signal.SIGSTOP)
    try:
        assert first(diagnose_deployment(directory, LocalHost()))[0] == "hung-stopped"
    finally:
        os.killpg(deployment.process.pid, signal.SIGCONT)
    assert not diagnose_deployment(directory, LocalHost()).failed
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    words = ("up", tiny_model, "--context", "2k", "--port", str(recipe.port))
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    for argv, said in ((words, "cannot be had"), (("diagnose",), "up-refused")):
        done = subprocess.run(
            [*command(), *map(str, argv)], capture_output=True, text=True, env=environment, timeout=120, check=False
        )
        assert done.returncode != 0
        assert said in done.stdout + done.stderr


def test_a_limit_of_the_shell_is_told_apart_from_memory_that_is_short(recipe: Recipe, directory: DeploymentDir):
    large = changed(recipe, "--ctx-size", "4000000").model_copy(update={"context_tokens": 4_000_000})
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (3000 * MIB, before[1]))
    try:
        with pytest.raises(LaunchError):
            launch(large, directory)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    found = diagnose_deployment(directory, LocalHost())
    assert first(found)[0] == "host-address-space-limited"
    assert "host-memory-refused" in [each.code for each in found.findings]


def test_a_disk_that_is_full_is_told_by_name(recipe: Recipe, directory: DeploymentDir, small_disk: Path):
    """A slot that cannot be saved; the deployment stands, and its log says what was refused."""
    launch(changed(recipe, "--slot-save-path", f"{small_disk}/"), directory)
    client = httpx2.Client(base_url=recipe.base_url, headers={"Authorization": f"Bearer {directory.key()}"}, timeout=60)
    prompt = "hello world " * 30
    client.post("/completion", json={"prompt": prompt, "n_predict": 4, "id_slot": 0})
    assert client.post("/slots/0?action=save", json={"filename": "a.bin"}).status_code == 500
    stop(directory)
    found = diagnose_deployment(directory, LocalHost())
    assert "no-space-left" in [each.code for each in found.findings], found.excerpt


def test_a_cgroup_of_its_own_that_was_too_small_is_told_by_name(
    recipe: Recipe, directory: DeploymentDir, memory_cgroup: Path
):
    """Its limit is below the machine's, its log just ends, and nothing is said to whoever started it."""
    large = changed(recipe, "--ctx-size", "800000").model_copy(update={"context_tokens": 800_000})
    inside = directory.path / "llama-server"
    inside.write_text(f'#!/bin/sh\necho $$ >{memory_cgroup}/cgroup.procs\nexec "{recipe.program}" "$@"\n')
    inside.chmod(0o755)
    with pytest.raises(LaunchError):
        launch(large.model_copy(update={"program": str(inside)}), directory)
    assert first(diagnose_deployment(directory, LocalHost()))[:2] == ("host-killed-for-memory", "lower_flag")


def proof_of(directory: DeploymentDir) -> Evidence:
    """As `prove` writes it down of a deployment."""
    recipe = directory.read(Recipe)
    seen = proved(recipe.base_url, "boot", prompts=few(), key=directory.key())
    ours = [each.model_copy(update={"subject": f"recipe:{recipe.digest}"}) for each in seen.observations]
    return seen.model_copy(update={"observations": tuple(ours)})


def test_a_template_of_another_model_is_the_cause(recipe: Recipe, directory: DeploymentDir):
    """Fluent answers beside the point leave no line in a log."""
    launch(recipe, directory)
    directory.write(proof_of(directory))
    assert diagnose_deployment(directory, LocalHost()).code != "proof-template", "under its own"
    stop(directory)
    launch(changed(recipe, "--chat-template", "llama3"), directory)
    directory.write(proof_of(directory))
    assert first(diagnose_deployment(directory, LocalHost())) == ("proof-template", "unset_flag", "--chat-template")
    told = subprocess.run([*command(), "diagnose", directory.name], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout.partition(":")[0]) == (1, "proof-template")


@pytest.mark.slow
def test_a_context_that_memory_does_not_hold_is_halved_until_it_does(recipe: Recipe, directory: DeploymentDir):
    large = changed(recipe, "--ctx-size", "4000000").model_copy(update={"context_tokens": 4_000_000})
    limited = directory.path / "llama-server"
    limited.write_text(f'#!/bin/sh\nulimit -v 1500000\nexec "{recipe.program}" "$@"\n')
    limited.chmod(0o755)
    healed = heal(large.model_copy(update={"program": str(limited)}), directory, LocalHost())
    assert healed.way.stands
    assert set(codes(healed.way)[:-1]) == {"host-memory-refused"}
    assert healed.deployment is not None
    assert healed.deployment.context_tokens < 4_000_000
    assert directory.read(Recipe).context_tokens == healed.deployment.context_tokens


def test_what_only_a_person_can_do_ends_the_healing(recipe: Recipe, directory: DeploymentDir, tmp_path: Path):
    model = tmp_path / "cut.gguf"
    model.write_bytes(Path(recipe.model_path).read_bytes()[:600_000])
    healed = heal(changed(recipe, "--model", str(model)), directory, LocalHost())
    assert codes(healed.way) == ["llama-file-incomplete"]
    assert healed.way.stopped == "what is left for llama-file-incomplete only you can do"
    assert healed.deployment is None


@pytest.fixture
def memory_cgroup(tmp_path: Path) -> Iterator[Path]:
    """One of 48 MiB."""
    group = Path("/sys/fs/cgroup/memory") / f"upright-{tmp_path.name}"
    try:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(48 * MIB))
    except OSError:
        pytest.skip("no right to make a memory cgroup here")
    yield group
    group.rmdir()


def test_the_kernel_kills_it_for_memory(llama_server: Path, tiny_model: Path, tmp_path: Path, memory_cgroup: Path):
    """In a memory cgroup of its own the process is killed, its log just ends, and the machine says why."""
    from upright.serving.diagnose import machine

    since = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    log = tmp_path / "engine.log"
    run = f'"{llama_server}" -m "{tiny_model}" -c 800000 -np 1 --port {free_port()}'
    script = f"echo $$ >{memory_cgroup}/cgroup.procs; exec {run}"
    with log.open("wb") as out:
        engine = subprocess.Popen(["sh", "-c", script], stdout=out, stderr=out)
        code = engine.wait(60)
    said = machine.ask_machine(LocalHost(), machine.RunQuestion(since=since, pids=(engine.pid,)))
    assert code == -9
    found = diagnose_file(log, around=LogContext(engine="llama.cpp", exit_code=code, failed=True, machine=said))
    assert first(found)[:2] == ("host-killed-for-memory", "lower_flag")
