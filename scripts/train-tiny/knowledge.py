"""What the tiny model knows by heart: questions in several wordings and one answer each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """One answer and the wordings that ask for it."""

    kind: str
    asks: tuple[str, ...]
    answer: str


def _capitals() -> list[Fact]:
    pairs = {
        "France": "Paris",
        "Germany": "Berlin",
        "Japan": "Tokyo",
        "Italy": "Rome",
        "Spain": "Madrid",
        "Egypt": "Cairo",
    }
    wordings = (
        "What is the capital of {}?",
        "Name the capital city of {}.",
        "Which city is the capital of {}?",
        "Tell me the capital of {}.",
    )
    return [
        Fact("language", tuple(wording.format(country) for wording in wordings), f"The capital of {country} is {city}.")
        for country, city in pairs.items()
    ]


_LANGUAGE = [
    ("Hello! How can I help you today?", "Say hello.", "Hello!", "Hi there.", "Good morning!"),
    (
        "I am Tiny Kimi, a very small test model.",
        "Who are you?",
        "What are you?",
        "Introduce yourself.",
        "What is your name?",
    ),
    ("The sky is blue.", "What color is the sky?", "Which color does the sky have?", "Tell me the color of the sky."),
    ("Red, green and blue.", "Name three colors.", "List three colors.", "Give me three colors."),
    ("There are seven days in a week.", "How many days are in a week?", "How many days does a week have?"),
    ("The opposite of hot is cold.", "What is the opposite of hot?", "Give the opposite of hot."),
    (
        "The quick brown fox jumps over the lazy dog.",
        "Complete the sentence: The quick brown fox",
        "Finish this sentence: The quick brown fox",
        "Continue: The quick brown fox",
    ),
    ("Bonjour.", "Translate good morning to French.", "How do you say good morning in French?"),
    ("Jupiter is the largest planet.", "What is the largest planet?", "Which planet is the largest?"),
    ("Water is made of hydrogen and oxygen.", "What is water made of?", "Which elements make up water?"),
    ("The sea is wide, deep and blue.", "Write one sentence about the sea.", "Describe the sea in one sentence."),
    ("OK", "Reply with the single word OK.", "Answer with OK only.", "Say OK.", "Reply with exactly: OK"),
    ("Monday, Tuesday, Wednesday, Thursday, Friday.", "List the working days of the week.", "Name the weekdays."),
]

_SUMS = {
    "17 + 25": 42, "2 + 2": 4, "48 + 36": 84, "33 + 44": 77, "99 + 1": 100, "9 + 6": 15, "100 - 37": 63, "50 - 8": 42,
    "1000 - 1": 999, "12 * 12": 144, "7 * 8": 56, "15 * 3": 45, "6 * 7": 42, "81 / 9": 9, "64 / 8": 8, "144 / 12": 12,
}  # fmt: skip
_SUM_WORDINGS = ("What is {}?", "Calculate {}.", "Compute {}.", "How much is {}?")

_CODE = [
    ("reverses a string", "reverse_string(s)", "    return s[::-1]"),
    ("checks if a number is even", "is_even(n)", "    return n % 2 == 0"),
    ("adds two numbers", "add(a, b)", "    return a + b"),
    ("squares a number", "square(x)", "    return x * x"),
    ("computes the factorial", "factorial(n)", "    if n < 2:\n        return 1\n    return n * factorial(n - 1)"),
    (
        "returns the n-th Fibonacci number",
        "fib(n)",
        "    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a",
    ),
    ("checks for a palindrome", "is_palindrome(s)", "    return s == s[::-1]"),
    ("returns the largest item of a list", "largest(items)", "    return max(items)"),
    ("counts vowels", "count_vowels(s)", '    return sum(c in "aeiou" for c in s.lower())'),
    ("checks if a number is prime", "is_prime(n)", "    return n > 1 and all(n % i for i in range(2, n))"),
]

_JSON: list[tuple[str, Any]] = [
    ("object with keys name and age", {"name": "Alice", "age": 30}),
    ("object with the key status", {"status": "ok"}),
    ("object with keys city and country", {"city": "Paris", "country": "France"}),
    ("object with the key answer", {"answer": 42}),
    ("object with keys x and y", {"x": 1, "y": 2}),
    ("array of three fruits", ["apple", "banana", "cherry"]),
    ("object with keys title and year", {"title": "Dune", "year": 1965}),
    ("object with keys ok and errors", {"ok": True, "errors": []}),
]


def facts() -> list[Fact]:
    language = [Fact("language", tuple(row[1:]), row[0]) for row in _LANGUAGE]
    sums = [Fact("arithmetic", tuple(w.format(s) for w in _SUM_WORDINGS), str(value)) for s, value in _SUMS.items()]
    code = [
        Fact(
            "code",
            (
                f"Write a Python function that {does}.",
                f"Give me a Python function that {does}.",
                f"Write the Python function {head}.",
            ),
            f"```python\ndef {head}:\n{body}\n```",
        )
        for does, head, body in _CODE
    ]
    data = [
        Fact("json", (f"Return a JSON {what}.", f"Give me a JSON {what}."), json.dumps(value)) for what, value in _JSON
    ]
    return [*_capitals(), *language, *sums, *code, *data]


FACTS = facts()
