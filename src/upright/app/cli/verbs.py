"""The table of verbs: which a person is shown, and under which of them the others stand.

A folded verb keeps its old name too (`verify` is `share verify`), with the same options, variables,
JSON and exit codes. A new verb folds an old one.
"""

from __future__ import annotations

SECTIONS: dict[str, dict[str, str]] = {
    "Know before you act": {
        "recommend": "Say which models to run on a box, best first, and why.",
        "plan": "Say whether the model fits, with how much context.",
        "compare": "Put models, boxes or engines side by side: what each step up buys, and costs.",
        "render": "Write the exact command, with a reason for every flag.",
        "check": "Let the engine's own parser judge the command, before anything starts.",
        "probe": "Look at a machine: processors, memory, GPUs, engines.",
        "explain": "Explain anything: a failure, a flag, a field, a term, a GPU, a model, a line of a log.",
        "catalog": "Look up facts: GPUs, boxes, models, failures, flags, measurements.",
    },
    "Act": {
        "demo": "Try it all in half a minute, on a model of 4 MB and without a GPU.",
        "run": "Do all of it: probe, read, plan, start, prove, report.",
        "launch": "Get a model standing, and start your own agent on it.",
        "fetch": "Bring exactly the files that an engine needs, verified.",
        "up": "Start an engine and wait until it really answers.",
        "ps": "List deployments and their state.",
        "logs": "Show an engine's log.",
        "restart": "Stop a deployment and start it again.",
        "down": "Stop a deployment.",
        "diagnose": "Say why an engine fell, by its log and its machine, and what to change.",
        "fleet": "Keep several boxes behind one endpoint: plan, start, watch, roll, end.",
    },
    "Use it, and show it": {
        "connect": "Print the settings for a client.",
        "prove": "Climb the proof ladder on a running deployment, or on anybody's server.",
        "bench": "Measure what an endpoint carries, and say what really happened.",
        "share": "Hand evidence on, and check what others hand you.",
    },
    "Depth": {
        "tools": "What one needs now and then: engines, kernels, monitoring, upkeep.",
    },
}
FOLDED: dict[str, dict[str, str]] = {
    "share": {
        "report": "Write the report: one page, self-contained.",
        "bundle": "Pack a deployment for somebody else: records, logs, evidence, redacted.",
        "verify": "Check somebody's evidence: every headline from its raw samples, digests, redaction, physics.",
        "replay": "Repeat somebody's evidence on this machine, and say cell by cell whether it comes to the same.",
        "index": "Search evidence that others shared, and keep an index of it: static files, signed, no server.",
    },
    "tools": {
        "engine": "Say which engines are at hand, and how to get one.",
        "read": "Read what a model is made of, from its headers.",
        "rehearse": "Start the engine on the real shapes before any weights are here.",
        "kernels": "Prove without a GPU that an engine's kernels fit a silicon.",
        "top": "Watch deployments live: tokens, queue, cache, errors, watts.",
        "monitor": "Write what Prometheus and Grafana need to watch deployments.",
        "record": "Record your own agent's session as a trace: lengths, times and shared prefixes, never text.",
        "residuals": "Show what an engine took against what was planned, term by term.",
        "calibrate": "Fit the constants of speed on your own measurements.",
        "field-test": "Spend the first hour on a box: what Upright claims, tried; what it was wrong about.",
        "store": "Look after the directories that deployments leave.",
        "mcp": "Answer agents over MCP, on stdin and stdout: recommend, plan, compare, render, explain, diagnose.",
        "site": "Publish the planner as a page that works in any browser, offline too.",
        "completion": "Write a script that completes verbs, options, models, boxes and deployments in your shell.",
    },
    "kernels": {
        "patch": "Patch an installed engine, with proof, and take it back.",
    },
}
"""What stands under a verb, by that verb."""
SHOWN = {verb: summary for verbs in SECTIONS.values() for verb, summary in verbs.items()}
VERBS = SHOWN | {verb: summary for verbs in FOLDED.values() for verb, summary in verbs.items()}
"""All that can be typed after `upright`."""
OTHER_WORDS = {
    "benchmark": "bench", "test": "prove", "serve": "up", "start": "up", "deploy": "up", "stop": "down", "kill": "down",
    "list": "ps", "ls": "ps", "status": "ps", "download": "fetch", "pull": "fetch", "inspect": "read",
    "doctor": "probe", "size": "fleet size",
}  # fmt: skip
"""Verbs of other tools, and ours for them."""


def words_of(verb: str) -> tuple[str, ...]:
    """What is typed for it today: `patch` is `tools kernels patch`."""
    above = next((group for group, verbs in FOLDED.items() if verb in verbs), None)
    return (*words_of(above), verb) if above else (verb,)
