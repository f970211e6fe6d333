"""A diagnosis -> the text of an issue for the engine's tracker, without keys, names and addresses of its owner."""

from __future__ import annotations

import re

from upright.base.untrusted_text import escape_controls, on_one_line
from upright.engines import ENGINES
from upright.evidence.bundle.redacting import Redactor
from upright.facts.records.diagnosis import Diagnosis, Finding

_TITLE_CHARACTERS = 100
_MOST_LINES = 40
_STAMP = re.compile(r"^(?:\([^)]{1,60}\) ?)*(?:[A-Z]{4,8} \d\d-\d\d [\d:.]+ (?:\[[^\]]{1,80}\] ?)?)?")


def issue_text(diagnosis: Diagnosis, redactor: Redactor) -> str:
    """Markdown; what only its writer knows is left to fill in."""
    lines = _lines(diagnosis)
    shown = [redactor.text(escape_controls(line)) for line in lines]
    engine = diagnosis.engine or "the engine"
    title = on_one_line(_STAMP.sub("", shown[-1] if shown else "it failed").strip(), _TITLE_CHARACTERS)
    fence = "`" * max(3, 1 + max((len(run) for line in shown for run in re.findall("`+", line)), default=0))
    primary = next((finding for finding in diagnosis.findings if finding.code == diagnosis.code), None)
    parts = [
        f"# {engine}: {title}",
        "### What happened",
        "FILL IN: the model and its quantisation, the GPUs, the engine's version, the command line, what you did.",
        "### What the log says",
        "\n".join([fence, *shown, fence]),
        "### What is known about it",
        redactor.text(_known(primary, diagnosis.certainty)),
    ]
    filed_for = ENGINES.get(diagnosis.engine or "")
    if filed_for is not None and filed_for.log.tracker is not None:
        parts.append(f"<!-- file it at {filed_for.log.tracker} after a search for its title there -->")
    return "\n\n".join(parts) + "\n"


def _lines(diagnosis: Diagnosis) -> list[str]:
    """What holds the cause, last; before it what else stands out, in the order of the log."""
    ends = [sighting.text for sighting in diagnosis.excerpt]
    others = sorted(
        (finding.seen for finding in diagnosis.findings if finding.seen.where == "log"),
        key=lambda sighting: sighting.number or 0,
    )
    before = [sighting.text for sighting in others if sighting.text not in ends]
    return list(dict.fromkeys([*before, *ends]))[-_MOST_LINES:]


def _known(primary: Finding | None, certainty: str | None) -> str:
    if primary is None:
        return "`upright diagnose` knows no cause for it."
    names = "holds possible" if certainty == "possibly" else "names it"
    rows = [f"`upright diagnose` {names} `{primary.code}` ({primary.title}): {primary.cause}"]
    rows += [f"- see {source}" for source in primary.sources if source.startswith("https://")]
    return "\n".join(rows)
