"""A rendered file -> the words that its real reader takes from it: bash, systemd, Quadlet's generator, YAML.

Nothing here guesses: bash runs the script with a program in the engine's place that tells how it was called, systemd's
own verifier dumps the command line that it read, podman's generator makes the unit that systemd then reads.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.programs import needs

_TELLS = '#!/bin/sh\n{ printf "%s\\0" "$@"; printf "\\0\\0"; env -0; } >"$TOLD"\n'
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def programs(folder: Path, *names: str) -> Path:
    """Programs that tell how they were called; a folder for the PATH."""
    place = folder / "programs"
    place.mkdir(exist_ok=True)
    for name in names:
        (place / name).write_text(_TELLS)
        (place / name).chmod(0o755)
    return place


def by_bash(script: str, folder: Path, path: Path) -> tuple[list[str], dict[str, str]]:
    """The words after the program, and its environment."""
    told = folder / "told"
    told.unlink(missing_ok=True)
    file = folder / "script.sh"
    file.write_text(script)
    environment = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder), "TOLD": str(told)}
    done = subprocess.run(["bash", file], cwd=folder, env=environment, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr[-2000:]
    words, _, rest = told.read_bytes().partition(b"\0\0\0")
    pairs = (each.decode().partition("=") for each in rest.split(b"\0") if each)
    return [word.decode() for word in words.split(b"\0")], {name: value for name, _, value in pairs}


def by_systemd(units: Mapping[str, str], folder: Path) -> dict[str, list[list[str]]]:
    """Unit -> its command lines as systemd read them, every Exec key in order. What it complains of fails the test."""
    needs("systemd-analyze")
    place = folder / "units"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in units.items():
        (place / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(place / name) for name in units)],
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "debug", "SYSTEMD_UNIT_PATH": f"{place}:"},
        capture_output=True, timeout=120,
    )  # fmt: skip
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    complained = re.compile(re.escape(f"{place}/") + r".*:\d+: (?!RequiresMounts)")
    complaints = [line for line in said.splitlines() if complained.search(line)]
    assert not complaints, complaints[:5]
    return {name: _dumped(said, name) for name in units}


def _dumped(said: str, name: str) -> list[list[str]]:
    """systemd quotes as a shell does, with C's escapes inside."""
    start = said.index(f"-> Unit {name}:")
    end = said.find("\n\t-> Unit ", start + 1)
    block = said[start : end if end > 0 else None]
    return [_unquoted(line) for line in re.findall(r"^\t+Command Line: (.*)$", block, re.MULTILINE)]


def _unquoted(line: str) -> list[str]:
    words, at = [], 0
    while at < len(line):
        if line[at] == " ":
            at += 1
        elif line[at] == '"':
            found = re.compile(r'"((?:[^"\\]|\\.)*)"').match(line, at)
            assert found, line[at : at + 200]
            words.append(_plain(found[1]))
            at = found.end()
        else:
            word = line[at:].partition(" ")[0]
            words.append(word)
            at += len(word)
    return words


def _plain(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        mark = found[1]
        if mark[0] in "xuU":
            return chr(int(mark[1:], 16))
        return chr(int(mark, 8)) if mark.isdigit() else _ESCAPES.get(mark, mark)

    return re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[0-7]{3}|.)", one, text)


def expanded(words: Sequence[str]) -> list[str]:
    """As systemd starts them: `$$` is a dollar, and no other may be left but the variables that we wrote."""
    for word in words:
        loose = re.sub(r"\$\$|\$\{(CREDENTIALS|RUNTIME)_DIRECTORY\}", "", word)
        assert "$" not in loose, f"systemd would expand {word[:200]!r}"
    return [word.replace("$$", "$") for word in words]


def by_quadlet(generator: Path, units: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Unit -> the service that podman's generator makes of it."""
    place = folder / "quadlets"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in units.items():
        (place / name).write_text(text)
    done = subprocess.run(
        [generator, "-user", "-dryrun"], capture_output=True, timeout=60,
        env={**os.environ, "QUADLET_UNIT_DIRS": str(place)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    parts = re.split(r"^---(.*)---$", done.stdout.decode(), flags=re.MULTILINE)
    made = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert len(made) == len(units), done.stderr[-2000:]
    return made


def by_compose(text: str) -> dict[str, Any]:
    """The engine's service, as the specification reads it, after interpolation."""
    from compose_spec import PyCompose

    plain = re.sub(r"\$\{ENGINE_USER:\?[^}]*\}", "1000:1000", text).replace('"${HOME}/', '"/home/me/')
    assert PyCompose.from_yaml(plain).service_names() == ["engine"]
    found = yaml.safe_load(plain)
    assert found["name"] == re.sub(r"[^a-z0-9_-]", "", found["name"])
    service: dict[str, Any] = _interpolated(found["services"]["engine"])
    return service


def _interpolated(value: Any) -> Any:
    if isinstance(value, str):
        known = {"$$": "$", "${HOME}": "/home/me"}
        return re.sub(r"\$(?:\$|\{HOME\}|)", lambda found: known[found[0]], value)
    if isinstance(value, dict):
        return {name: _interpolated(each) for name, each in value.items()}
    return [_interpolated(each) for each in value] if isinstance(value, list) else value


def by_kubernetes(text: str, *, like: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The documents, each valid for a real cluster's schema, with names that its servers take.

    Those that have the very shape of some that were judged before are as valid as they: the schema is slow.
    """
    import kubernetes_validate as validate

    documents = list(yaml.safe_load_all(text))
    for document in documents:
        if like is None or _shape(documents) != _shape(like):
            validate.validate(document, "1.30", strict=True)
        # RFC 1035, which a Service's name must keep: k8s.io/apimachinery, validation.IsDNS1035Label
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", document["metadata"]["name"]), document["metadata"]
        assert len(document["metadata"]["name"]) <= 63
    return documents


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else type(value)


def kubernetes_expanded(word: str) -> str:
    """$(NAME) and $$, as k8s.io/kubernetes/third_party/forked/golang/expansion reads them, with nothing defined."""
    whole, at = "", 0
    while at < len(word):
        if word[at] == "$" and word[at + 1 : at + 2] == "$":
            whole, at = whole + "$", at + 2
        elif word[at] == "$" and word[at + 1 : at + 2] == "(" and ")" in word[at:]:
            raise AssertionError(f"Kubernetes would expand {word[:200]!r}")
        else:
            whole, at = whole + word[at], at + 1
    return whole
