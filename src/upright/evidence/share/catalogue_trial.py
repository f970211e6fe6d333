"""Plans with the offered rows, in another process, beside the plans of now.

A row can be valid and still break a plan. Whatever falls over here falls over in a process of its own, within seconds
and bytes, and the update is refused. `python -m upright.evidence.share.catalogue_trial` is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import RecordError, UprightError
from upright.base.home import home
from upright.base.untrusted_text import on_one_line
from upright.evidence.share.catalogue_changes import RowChange
from upright.facts.catalog.installed_catalogues import catalogues_folder
from upright.facts.catalog.loader import rows, user_folder
from upright.facts.catalog.rows.hardware import BoxRow
from upright.facts.records.base import Part

MOST_TRIALS = 3
_MODEL, _BOX = "gpt-oss-120b", "8x-rtx-pro-6000"
"""What is planned where a row is of no model or no box."""
_SECONDS = 120
_BYTES = 4 << 30


class MovedPlan(Part):
    """One plan, made with the rows of now and with those that are offered."""

    model: str
    """Planned so."""
    box: str
    """On this."""
    before: str
    """The first choice: engine, context, tokens a second; or why there is none."""
    after: str
    """The same with the offered rows."""


def changed_plans(touched: Sequence[RowChange], taken: dict[str, bytes]) -> tuple[MovedPlan, ...]:
    """Plans that move; `taken` are the files of HOME/catalogues/taken as they would be. RecordError if one breaks."""
    pairs = list(_pairs(touched))[:MOST_TRIALS]
    asked = {"pairs": pairs, "kinds": sorted({change.kind for change in touched})}
    with _home_with(taken) as folder, _trial(asked, folder) as with_them, _trial(asked, None) as without:
        after, before = _answers(with_them), _answers(without)
    if broken := [answer for answer in after if answer["broke"]]:
        raise RecordError(f"the update is refused: {broken[0]['what']} breaks: {on_one_line(broken[0]['says'])}")
    plans = zip(pairs, before, after, strict=False)
    return tuple(
        MovedPlan(model=model, box=box, before=was["says"], after=now["says"])
        for (model, box), was, now in plans
        if was["says"] != now["says"]
    )


def _pairs(touched: Iterable[RowChange]) -> Iterator[tuple[str, str]]:
    """What would notice these rows, each once."""
    seen: set[tuple[str, str]] = set()
    for change in touched:
        pair = (change.id if change.kind == "models" else _MODEL, _box_of(change))
        if pair not in seen:
            seen.add(pair)
            yield pair


def _box_of(change: RowChange) -> str:
    if change.kind == "boxes":
        return change.id
    if change.kind == "gpus":
        held = (row.id for row in rows("boxes").values() if isinstance(row, BoxRow) and row.gpu == change.id)
        return next(held, f"8x-{change.id}")
    return _BOX


@contextmanager
def _home_with(taken: dict[str, bytes]) -> Iterator[Path]:
    """A home with the person's own rows and these versions of catalogues, and nothing else of theirs."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "catalogues" / "taken").mkdir(parents=True)
        if user_folder().is_dir():
            (folder / "catalog").symlink_to(user_folder())
        for file, content in taken.items():
            (folder / "catalogues" / "taken" / f"{file}.json").write_bytes(content)
            (folder / "catalogues" / file).symlink_to(catalogues_folder() / file)
        yield folder


@contextmanager
def _trial(asked: dict[str, Any], place: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    environment = dict(os.environ) if place is None else {**os.environ, "UPRIGHT_HOME": str(place)}
    command = [sys.executable, "-m", "upright.evidence.share.catalogue_trial", json.dumps(asked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _answers(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    try:
        written, complaints = process.communicate(timeout=_SECONDS)
        answers: list[dict[str, Any]] = parse_json(written)
    except subprocess.TimeoutExpired:
        answers = [{"what": "planning", "broke": True, "says": f"no end within {_SECONDS} s"}]
    except ValueError:
        last = on_one_line(complaints.decode(errors="replace").strip().rpartition("\n")[2])
        answers = [{"what": "planning", "broke": True, "says": last or f"it ended with {process.returncode}"}]
    return answers


def main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    asked = parse_json(sys.argv[1])
    answers = [_answer(f"the plan of {model} on {box}", partial(_planned, model, box)) for model, box in asked["pairs"]]
    answers += [_answer(f"the list of {kind}", partial(_listed, kind), must=True) for kind in asked["kinds"]]
    if "failures" in asked["kinds"]:
        answers.append(_answer("diagnosing a log", _diagnosed, must=True))
    print(json.dumps(answers))


def _answer(what: str, ask: Callable[[], str], *, must: bool = False) -> dict[str, Any]:
    """A plan may say no, as for a box that is not there any more; a list may not."""
    try:
        return {"what": what, "broke": False, "says": ask()}
    except UprightError as error:
        return {"what": what, "broke": must, "says": error.message.replace(str(home()), "UPRIGHT_HOME")}
    except Exception as error:  # whatever a row can do to a plan ends here
        return {"what": what, "broke": True, "says": f"{error.__class__.__name__}: {error}"}


def _listed(kind: str) -> str:
    return str(len(rows(kind)))


def _planned(model: str, box: str) -> str:
    from upright.planning.requests.library import plan

    first = next((choice for choice in plan(model, box) if not choice.objections), None)
    if first is None:
        return "does not fit"
    speed = first.speed.decode if first.speed is not None else None
    rate = f", {speed.low:.0f} to {speed.high:.0f} tok/s" if speed is not None else ""
    return f"{first.engine}, {first.context_tokens:,} tokens{rate}"


def _diagnosed() -> str:
    from upright.facts import catalog
    from upright.serving.diagnose import diagnose

    log = "\n".join(catalog.healthy_lines()).encode()
    return str(diagnose(BytesIO(log), subject="healthy").code)


if __name__ == "__main__":
    main()
