"""A name: it may hold anything, of a file, a model, a variable, a machine, an image; a person only typed or picked it.

Names go into shell scripts, units, manifests and ssh. Each is given to the real reader of what was written, which must
take the very same word from it; or it is refused, in one line.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import hostile_strings as hostile
from tests import judges
from tests.conftest import TINY_MODEL
from tests.golden.deployments import recipe
from upright.base.errors import UprightError, UsageError
from upright.base.host import SshHost
from upright.base.untrusted_text import checked_name, escape_controls, name_fault
from upright.facts import records, store
from upright.facts.records.base import Part
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.rendering import router_files
from upright.planning.rendering.targets import TARGETS
from upright.serving.launch.places import LocalPlace, SshPlace, remote_scripts
from upright.serving.launch.runtimes import RUNTIMES, Command, DeploymentPaths

NOT_PROMISED = (
    "that two names which differ only in letters that a unit or a cluster does not allow get two different unit names",
    "that a recipe of somebody else is safe to start: a recipe names the program that it runs, so read it first",
)
MARK = "MARKED"
"""Stands in a harmless recipe where the hostile string will stand: all words but these must be the same."""
ONE_LINE = {name: text for name, text in hostile.STRINGS.items() if "\0" not in text and name not in ("half", "long")}
REFUSED = {name for name, text in hostile.STRINGS.items() if re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud83d]", text)}
"""Those with a control character, or half of a pair."""
MAY_BE_REFUSED = (
    REFUSED | {name for name, text in hostile.STRINGS.items() if ":" in text or not text.isprintable()} | {"long"}
)
"""As the path of a volume also what has a colon, and what cannot be seen."""


def poisoned(base: Recipe, **words: str) -> Recipe:
    """The recipe with other words: the model's path and name wherever they stand, and a flag and a variable more."""
    path, name = words.get("path", base.model_path), words.get("name", base.served_name)
    swapped = {base.model_path: path, base.served_name: name}
    why = words.get("why", "because")
    arguments = [
        each.model_copy(update={"value": swapped.get(each.value or "", each.value), "reason": why})
        for each in base.arguments
    ]
    extra = Setting(name="--extra", value=words.get("value", "plain"), reason=why, source=why)
    variable = Setting(name="EXTRA", value=words.get("value", "plain"), reason=why)
    return base.model_copy(
        update={
            "arguments": (*arguments, extra),
            "environment": (*base.environment, variable),
            "model_path": path,
            "served_name": name,
            "image": base.image or "docker.io/me/engine:1",
            "image_about": why,
            "notes": (why,),
            **{field: words[field] for field in ("program", "host", "health_path") if field in words},
            **({"image": words["image"]} if "image" in words else {}),
        }
    )


class Judged:
    """What the real reader of each target takes from a recipe: words in order, in which a name is the whole word."""

    def __init__(self, folder: Path, generator: Callable[[], Path]) -> None:
        self.folder, self.generator = folder, generator
        self.path = judges.programs(folder, "docker", "podman", "vllm", "python3", "llama-server")
        self.manifests: list[dict[str, Any]] | None = None
        (folder / "key").write_text("k" * 48)

    def __call__(self, target: str, written: dict[str, str]) -> dict[str, list[str]]:
        """Of many recipes at once, by name: systemd and Quadlet read folders."""
        if target in ("shell", "docker", "podman", "router.shell"):
            return {name: self._bash(text) for name, text in written.items()}
        if target in ("systemd", "router.systemd"):
            return self._units({f"{name}.service": text for name, text in written.items()})
        if target in ("quadlet", "router.quadlet"):
            made = judges.by_quadlet(self.generator(), {f"{n}.container": t for n, t in written.items()}, self.folder)
            return self._units(made)
        read: Callable[[str], list[str]] = {"compose": self._compose, "kubernetes": self._kubernetes}[target]
        return {name: read(text) for name, text in written.items()}

    def _bash(self, text: str) -> list[str]:
        words, environment = judges.by_bash(
            text.replace("$HOME/.config/upright/key", "$HOME/key"), self.folder, self.path
        )
        return [*words, f"EXTRA={environment.get('EXTRA')}"]

    def _units(self, units: dict[str, str]) -> dict[str, list[str]]:
        lines = judges.by_systemd(units, self.folder)
        found = {}
        for name, text in units.items():
            start = [line for line in lines[name] if "rm" not in line[:3]]
            assert len(start) == 1, f"{name} runs {lines[name]}"
            sections = re.findall(r"^\[.*\]$|^[A-Za-z]+=", text, re.MULTILINE)
            words = [word for word in judges.expanded(start[0]) if word != "/usr/bin/env"]  # which finds odd programs
            found[name.rpartition(".")[0]] = [*words, *sections]
        return found

    def _compose(self, text: str) -> list[str]:
        service = judges.by_compose(text)
        environment = [f"{name}={value}" for name, value in service["environment"].items()]
        return [*service["entrypoint"], *service["command"], *service["volumes"], *environment, *service]

    def _kubernetes(self, text: str) -> list[str]:
        self.manifests = judges.by_kubernetes(text, like=self.manifests)
        deployment, service = self.manifests
        pod = deployment["spec"]["template"]["spec"]
        container = pod["containers"][0]
        words = [*container["command"], *container["args"], *(f"{e['name']}={e['value']}" for e in container["env"])]
        folder = next(volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume)
        return [*map(judges.kubernetes_expanded, words), folder, *container, *pod, *deployment, *service]


@pytest.fixture
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Judged:
    return Judged(tmp_path, lambda: request.getfixturevalue("quadlet"))


def marked(targets: Iterable[str]) -> list[Any]:
    """podman's generator is one of the real parts that CI unpacks."""
    return [pytest.param(name, marks=pytest.mark.engine) if name == "quadlet" else name for name in targets]


def holds(judged: Judged, target: str, base: Recipe, fields: dict[str, str], strings: dict[str, str]) -> set[str]:
    """Each string in those fields ({} is where it goes) is a word and nothing else; names of those refused."""

    def of(text: str) -> Recipe:
        return poisoned(base, **{field: form.replace("{}", text) for field, form in fields.items()})

    written, refused = {"harmless": TARGETS[target].write(of(MARK))}, set()
    complaints: list[str | None] = []
    for name, text in strings.items():
        try:
            written[name] = TARGETS[target].write(of(text))
        except UsageError as error:
            refused.add(name)
            complaints.append(hostile.complaint(escape_controls(error.message)))
    assert set(complaints) <= {None}
    read = judged(target, written)
    for name in written.keys() - {"harmless"}:
        meant = [_named(word.replace(MARK, strings[name]), MARK, strings[name]) for word in read["harmless"]]
        assert [_named(word, MARK, strings[name]) for word in read[name]] == meant, (target, name)
    assert not list(judged.folder.rglob(hostile.CANARY))
    return refused


def _named(word: str, mark: str, text: str) -> str:
    """Names that a target makes itself (a secret's, a container's) are its own affair, and judged elsewhere."""
    from upright.planning.rendering.container import label_of, slug_of

    for own in {slug_of(text), label_of(slug_of(text)), slug_of(mark), label_of(slug_of(mark))}:
        word = re.sub(rf"(?<![\w-]){re.escape(own)}(?=-key\b|$)", "NAME", word)
    return re.sub("//+", "/", word)


BASES = ("kimi-k26-vllm", "kimi-k26-sglang", "kimi-k26-ik-llama")
"""Keys by a variable, by a configuration, by a file; a repository and a file of weights."""
VALUES = {"value": "a{}", "why": "{}"}
NAMES = {"name": "{}", "path": "/models/{}/x.gguf"}


@pytest.mark.promise(
    "no value, name or path in a recipe becomes anything but that one word, in any file that is written"
)
@pytest.mark.parametrize("target", marked(TARGETS))
def test_every_target_writes_the_word_that_was_meant(target: str, judged: Judged):
    base = recipe("kimi-k26-ik-llama")
    assert holds(judged, target, base, VALUES, hostile.STRINGS) == {"nul", "half", "long"}
    refused = holds(judged, target, base, NAMES, hostile.STRINGS)
    assert refused >= REFUSED | {"long"}
    assert refused <= MAY_BE_REFUSED


@pytest.mark.slow
@pytest.mark.promise(
    "no value, name or path in a recipe becomes anything but that one word, in any file that is written"
)
@pytest.mark.parametrize("field", ["value", "why", "name", "path", "program", "image", "host", "health_path"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("target", marked(TARGETS))
def test_every_field_of_every_kind_of_recipe(target: str, base: str, field: str, judged: Judged):
    form = {
        "path": "/models/{}", "program": f"{judged.folder}/{{}}/vllm", "image": "docker.io/me/engine:{}",
        "health_path": "/health{}", "value": "a{}",
    }.get(field, "{}")  # fmt: skip
    strings = dict(hostile.STRINGS)
    if field == "program":
        del strings["climbing"]  # it would lead out of the test's folder
        for text in (MARK, *(text for text in strings.values() if name_fault(text) is None)):
            program = judged.folder / text / "vllm"
            program.parent.mkdir(parents=True)
            shutil.copy(judged.path / "vllm", program)
    holds(judged, target, recipe(base), {field: form}, strings)


@pytest.mark.promise(
    "no value, name or path in a recipe becomes anything but that one word, in any file that is written"
)
@pytest.mark.parametrize("target", marked(router_files.TARGETS))
def test_the_routers_files(target: str, judged: Judged):
    from tests.golden.test_router import FLEET
    from upright.flows.fleet.rendering import render_router

    def write(text: str) -> str:
        made = render_router(FLEET, target, folder=f"/etc/{text}")
        if target == "shell":
            (judged.folder / "etc").mkdir(exist_ok=True)
            return made.files[made.main].replace("for key in client worker admin", "for key in")
        return made.files[made.main]

    written = {"harmless": write(MARK)}
    for name, text in hostile.STRINGS.items():
        try:
            written[name] = write(text)
        except UsageError:
            assert name in MAY_BE_REFUSED | {"climbing"}
    read = judged(f"router.{target}", written)
    for name in written.keys() - {"harmless"}:
        assert read[name] == [word.replace(MARK, hostile.STRINGS[name]) for word in read["harmless"]], name


@pytest.mark.promise("a colon in a model's path does not become a second volume: such a path is refused")
@pytest.mark.parametrize("target", ["docker", "podman", "compose", "quadlet"])
def test_a_colon_is_no_second_volume(target: str):
    with pytest.raises(UsageError, match="has a colon"):
        TARGETS[target].write(poisoned(recipe("kimi-k26-ik-llama"), path="/models/a:/etc:rw/x.gguf"))


@pytest.mark.promise("a colon in a model's path does not become a second volume: such a path is refused")
@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_a_colon_is_no_second_volume_when_it_is_started(runtime: str):
    site = DeploymentPaths(key_file="/home/me/key", key_config="/home/me/key.yaml", home="/home/me", user="1000:1000")
    wanted = poisoned(recipe("kimi-k26-ik-llama"), path="/models/a:/etc:rw/x.gguf")
    with pytest.raises(UsageError, match="has a colon"):
        RUNTIMES[runtime].command(wanted, site, container="c", label="l")


@pytest.mark.promise("names in a cluster are valid, whatever the model is called")
@pytest.mark.parametrize("name", [*hostile.HONEST, "123", "null", "on", "-", "...", "1e5", "A" * 300, "K2.6", "9.-"])
def test_kubernetes_names_are_valid(name: str):
    asked = recipe("kimi-k26-vllm")
    judges.by_kubernetes(TARGETS["kubernetes"].write(poisoned(asked, name=name)), like=_valid())
    judges.by_compose(TARGETS["compose"].write(poisoned(asked, name=name)))


@cache
def _valid() -> list[dict[str, Any]]:
    return judges.by_kubernetes(TARGETS["kubernetes"].write(poisoned(recipe("kimi-k26-vllm"), name="kimi")))


def name_fields() -> Iterator[tuple[type[Part], str]]:
    """Every field of every record that is a name, from the records themselves."""
    for kind in _parts(Part):
        for field, info in kind.model_fields.items():
            checks = {getattr(getattr(each, "func", None), "__name__", "") for each in info.metadata}
            if "checked_name" in checks or "checked_name" in repr(info.annotation):
                yield kind, field


def _parts(kind: type[Part]) -> Iterator[type[Part]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("upright.facts.records"):
            yield child
            yield from _parts(child)


MUST_BE_NAMES = {
    "Recipe.model_path", "Recipe.served_name", "Recipe.program", "Recipe.image", "Recipe.host", "Deployment.name",
    "Deployment.machine", "Deployment.served_name", "Deployment.base_url", "Model.name", "Model.path", "Model.source",
    "ModelFile.name", "Architecture.name", "Box.name", "EngineInstall.program", "Fleet.model", "FleetBox.model_path",
    "Benchmark.model", "Benchmark.base_url", "Evidence.deployment", "Setting.name",
}  # fmt: skip


@pytest.mark.promise(
    "a control character in a path, a file, a deployment's, host's or served name is refused in one line"
)
def test_every_name_in_a_record_is_checked():
    for module in pkgutil.iter_modules(records.__path__):
        importlib.import_module(f"upright.facts.records.{module.name}")
    found = {f"{kind.__name__}.{field}" for kind, field in name_fields()}
    assert MUST_BE_NAMES - found == set()


@pytest.mark.promise(
    "a control character in a path, a file, a deployment's, host's or served name is refused in one line"
)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_name_is_refused_in_one_line(name: str):
    with pytest.raises(UsageError) as caught:
        checked_name(hostile.STRINGS[name])
    assert hostile.complaint(caught.value.message) is None
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 700
    with pytest.raises(UprightError):
        SshHost(hostile.STRINGS[name])


@pytest.mark.promise(
    "a control character in a path, a file, a deployment's, host's or served name is refused in one line"
)
@pytest.mark.parametrize("verb", ["read", "plan", "render", "up", "check", "fetch", "rehearse", "run"])
def test_a_file_with_such_a_name_is_refused_by_every_verb_that_takes_a_model(verb: str, upright: Any, tmp_path: Path):
    folder = tmp_path / "models"
    folder.mkdir()
    file = folder / hostile.INJECTED["here-document"]
    shutil.copy(TINY_MODEL, file)
    done = upright(verb, file)
    assert done.returncode == 2, done.stdout
    assert hostile.complaint(done.stdout + done.stderr) is None
    assert "cannot be a name: it holds a control character, \\u000a" in done.stderr, done.stderr
    assert not list(tmp_path.rglob(hostile.CANARY))


@pytest.mark.promise("names of honest people stay: letters of every script, spaces, quotes, emoji")
@pytest.mark.parametrize("name", hostile.HONEST)
def test_honest_names_are_taken(name: str):
    assert checked_name(name) == name


TELLER = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open(os.environ['TOLD'], 'w'))"
WORDS = list(ONE_LINE.values())
VARIABLES = {f"V{number}": text for number, text in enumerate(WORDS)}


def told(file: Path) -> tuple[list[str], dict[str, str]]:
    deadline = time.monotonic() + 20
    while not (file.exists() and file.read_text().endswith("}]")):
        assert time.monotonic() < deadline, "the engine was not started"
        time.sleep(0.02)
    words, environment = json.loads(file.read_text())
    return words, environment


def command(file: Path) -> Command:
    return Command(argv=(sys.executable, "-c", TELLER, *WORDS), environment={**VARIABLES, "TOLD": str(file)})


@pytest.mark.promise("an engine is started with the words of its recipe and no others, on this machine and over ssh")
def test_words_arrive_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    place = LocalPlace(store.create("words"))
    place.start(command(tmp_path / "told"))
    words, environment = told(tmp_path / "told")
    assert words == WORDS
    assert {name: environment[name] for name in VARIABLES} == VARIABLES
    place.end(None)


@pytest.mark.engine
@pytest.mark.promise("an engine is started with the words of its recipe and no others, on this machine and over ssh")
def test_words_arrive_over_ssh(ssh_command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UPRIGHT_SSH_COMMAND", " ".join(ssh_command))
    place = SshPlace(store.create("words"), "box")
    there = Path.home() / place.folder
    try:
        place.start(command(tmp_path / "told"))
        words, environment = told(tmp_path / "told")
        assert words == WORDS
        assert {name: environment[name] for name in VARIABLES} == VARIABLES
        assert not list(there.rglob(hostile.CANARY))
        assert not (Path.home() / hostile.CANARY).exists()
    finally:
        place.end(None)
        place.close()
        shutil.rmtree(there, ignore_errors=True)


@pytest.mark.promise("an engine is started with the words of its recipe and no others, on this machine and over ssh")
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("name", ONE_LINE)
def test_no_name_ends_a_script(name: str, shell: str, tmp_path: Path):
    """The script that travels, read by the shells that other machines have: the end word of a here-document too."""
    import subprocess

    script = remote_scripts.start("place", Command(argv=("true", ONE_LINE[name])), "key", "/no/config")
    argv = ["busybox", "sh"] if shell == "busybox" else [shell]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(argv, input=script.encode(), capture_output=True, env=environment, timeout=30)
    assert done.stderr == b""
    assert not list(tmp_path.rglob(hostile.CANARY))
