"""A running server -> how many answers of each skill are exactly right: content, thought, calls, arguments and ids.

Dialogues are drawn with a seed that training does not use; every answer is asked for with the true history.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.error
import urllib.request
from collections import defaultdict
from random import Random
from typing import Any

from skills import SHARES, Dialogue, dialogue

Json = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base_url")
    parser.add_argument("--model", default="tiny-kimi")
    parser.add_argument("--key", default="none")
    parser.add_argument("--count", type=int, default=20, help="dialogues of each skill")
    parser.add_argument("--skills", nargs="*", default=list(SHARES), choices=SHARES)
    parser.add_argument(
        "--lengths", type=int, nargs="*", default=[256, 2048, 3072, 4096, 8192], help="tokens of the needles' texts"
    )
    parser.add_argument("--needles", type=int, default=5, help="texts of each length")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--show", type=int, default=2, help="wrong answers to print of each skill")
    parser.add_argument("--seed", type=int, default=4711)
    args = parser.parse_args()
    for skill in args.skills:
        if skill == "needle":
            for length in args.lengths:
                _measure(args, skill, length, args.needles)
        else:
            _measure(args, skill, 900 if skill == "counting" else 300, args.count)


def _measure(args: argparse.Namespace, skill: str, tokens: int, count: int) -> None:
    rng, started, wrong = Random(f"{args.seed} {skill} {tokens}"), time.monotonic(), []
    right: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for _ in range(count):
        made = dialogue(skill, rng, tokens)
        if made.forced:
            continue
        for place, expected in enumerate(made.messages):
            if expected["role"] != "assistant":
                continue
            answer = chat(args, made, made.messages[:place])
            complaint = compare(expected, answer, made.thinking)
            mode = "thinking" if made.thinking else "instant"
            right[mode][1] += 1
            right[mode][0] += complaint is None
            if complaint:
                wrong.append(
                    (mode, [m for m in made.messages[:place] if m["role"] == "user"][-1]["content"][-110:], complaint)
                )
    figures = ", ".join(f"{mode} {good}/{every}" for mode, (good, every) in sorted(right.items()))
    print(
        f"{skill if skill != 'needle' else f'needle {tokens}':12s} {figures}  ({time.monotonic() - started:.1f} s)",
        flush=True,
    )
    for row in wrong[: args.show]:
        print("    wrong:", *(text[:300] for text in row), sep="\n        ")


def chat(args: argparse.Namespace, made: Dialogue, messages: list[Json]) -> Json:
    body: Json = {
        "model": args.model,
        "messages": [as_sent(message) for message in messages],
        "temperature": 0,
        "max_tokens": 4200 if made.skill == "counting" else 256,
    }
    body["chat_template_kwargs"] = {"thinking": made.thinking}
    if made.tools:
        body["tools"] = made.tools
    if args.stream:
        body["stream"] = True
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {args.key}"}
    request = urllib.request.Request(f"{args.base_url}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            if args.stream:
                return _joined([json.loads(line[6:]) for line in reply if line.startswith(b"data: {")])
            return dict(json.load(reply)["choices"][0])
    except urllib.error.HTTPError as error:
        return {"message": {"content": f"HTTP {error.code}: {error.read()[:300]!r}"}, "finish_reason": "error"}


def compare(expected: Json, answer: Json, thinking: bool) -> str | None:
    message = answer["message"]
    calls = [(c["id"], c["function"]["name"], _arguments(c)) for c in message.get("tool_calls") or []]
    wanted = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in expected.get("tool_calls", [])]
    if calls != wanted:
        return f"calls {calls or message.get('content')!r}, not {wanted}"
    if (message.get("content") or "").strip() != expected["content"].strip():
        return f"content {message.get('content')!r}, not {expected['content']!r}"
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    if thinking and "reasoning_content" in expected and thought.strip() != expected["reasoning_content"]:
        return f"thought {thought!r}, not {expected['reasoning_content']!r}"
    finish = "tool_calls" if wanted else "stop"
    return None if answer["finish_reason"] == finish else f"finish_reason {answer['finish_reason']}, not {finish}"


def as_sent(message: Json) -> Json:
    """As the protocol wants it: arguments are a string."""
    if "tool_calls" not in message:
        return message
    calls = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
            },
        }
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _arguments(call: Json) -> Any:
    try:
        return json.loads(call["function"]["arguments"])
    except ValueError:
        return call["function"]["arguments"]


def _joined(chunks: list[Json]) -> Json:
    message: Json = {"content": "", "reasoning": "", "tool_calls": []}
    finish = None
    for chunk in chunks:
        for choice in chunk["choices"]:
            finish = choice.get("finish_reason") or finish
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
            for part in delta.get("tool_calls") or []:
                while len(message["tool_calls"]) <= part["index"]:
                    message["tool_calls"].append({"id": "", "function": {"name": "", "arguments": ""}})
                call = message["tool_calls"][part["index"]]
                call["id"] += part.get("id") or ""
                for name in ("name", "arguments"):
                    call["function"][name] += part["function"].get(name) or ""
    return {"message": message, "finish_reason": finish}


if __name__ == "__main__":
    main()
