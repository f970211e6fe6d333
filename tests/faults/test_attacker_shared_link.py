"""A shared link: a question to the page in the browser, or a file that was dropped there, with anything in it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests import hostile_strings as hostile
from upright.app.site import publishing
from upright.app.site.page_answers import answer

NOT_PROMISED = (
    "that a browser has no hole, or that whoever serves the page serves the one that was built: its files carry hashes",
)
BOX, MODEL = "2x-rtx-4090", "qwen3-32b"
NUMBERS = ("0", "-1", "1e308", "-1e308", "9" * 400, "NaN", "Infinity", "1e-300", "null", "true", '"1"', "[]", "{}")
PAGE = Path(publishing.__file__).parent / "page"


def _answered(message: str) -> dict[str, Any]:
    began = time.process_time()
    told = answer(message)
    assert time.process_time() - began < 20, message[:200]
    content = json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(content, dict)
    if "error" in content:
        assert "Traceback" not in content["error"]["message"]
    return content


@pytest.mark.promise("whatever a link asks, the answer is JSON in bounded time: what cannot be answered is a sentence")
@pytest.mark.parametrize("ask", ["plan", "speed", "recipe", "diagnose", "compare"])
def test_any_word_is_answered(ask: str):
    for text in hostile.STRINGS.values():
        word = text[:3000]
        named = {"ask": ask, "box": BOX, "model": MODEL}
        for field in ("ask", "box", "model", "log", "engine", "goal"):
            question = {**named, field: word}
            if ask == "diagnose":
                question = {"ask": ask, "log": text, "engine": word} if field == "engine" else {"ask": ask, "log": text}
            elif ask == "compare":
                question = {"ask": ask, "columns": [{"box": word, "model": word}]}
            told = _answered(json.dumps(question))
            if "error" in told:
                assert hostile.complaint(told["error"]["message"][:2000].replace("\n", " ")) is None, told


@pytest.mark.promise("whatever a link asks, the answer is JSON in bounded time: what cannot be answered is a sentence")
@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize("field", ["memory_gib", "context_tokens", "users", "minimum_tokens_per_second", "purchase"])
def test_any_number_is_answered(field: str, number: str):
    if field == "memory_gib":
        asked = f'{{"ask":"plan","box":"{BOX}","model":"{MODEL}","memory_gib":{number}}}'
    elif field == "purchase":
        asked = f'{{"ask":"compare","columns":[{{"box":"{BOX}","model":"{MODEL}","purchase":{number}}}]}}'
    else:
        asked = f'{{"ask":"plan","box":"{BOX}","model":"{MODEL}","goal":{{"{field}":{number}}}}}'
    _answered(asked)


@pytest.mark.promise("whatever a link asks, the answer is JSON in bounded time: what cannot be answered is a sentence")
@pytest.mark.parametrize(
    "message",
    [
        "", "null", "[]", "{}", "[" * 100_000, '{"ask":' * 10_000, '{"ask":"plan"}', "\x00", '{"ask":"\\ud800"}',
        '{"ask":"plan","box":"999999999x-rtx-4090","model":"qwen3-32b"}', '{"ask":"compare","columns":[]}',
        '{"ask":"recommend","box":"99999x-b200"}', '{"ask":"plan","box":"2x-rtx-4090","model":"/etc/passwd"}',
        '{"ask":"plan","box":"2x-rtx-4090","model":"/dropped/../../etc/passwd"}',
        '{"ask":"plan","box":"/dev/zero","model":"qwen3-32b"}', '{"ask":"plan","box":"/proc/self/mem","model":"x"}',
        '{"ask":"plan","box":"ssh:evil.example","model":"qwen3-32b"}',
        '{"ask":"plan","box":"2x-rtx-4090","model":"a/b"}',
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_any_message_is_answered(message: str):
    told = _answered(message)
    assert "root:" not in json.dumps(told)


@pytest.mark.promise("the page writes what it is told as text, never as markup or code")
def test_the_page_makes_no_markup_of_an_answer():
    risky = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|srcdoc"
    )
    scripts = [path for path in PAGE.iterdir() if path.suffix in (".js", ".mjs", ".html")]
    assert len(scripts) >= 3
    assert [(path.name, found[0]) for path in scripts for found in risky.finditer(path.read_text("utf-8"))] == []
    assert risky.search("element.innerHTML = x"), "the judge sees it"
