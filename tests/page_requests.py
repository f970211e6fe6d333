"""A number -> so many random requests, each as the page asks it and as a person types it; the same ones every time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from upright.facts import catalog

USES = ("coding-agent", "chat", "batch", "long-documents")


@dataclass(frozen=True)
class Request:
    model: str
    box: str
    ram: int | None
    goal: tuple[tuple[str, str, Any], ...]
    """Field, option, setting."""

    @property
    def question(self) -> dict[str, Any]:
        goal = {field: setting for field, _, setting in self.goal}
        return {"ask": "plan", "model": self.model, "box": self.box, "memory_gib": self.ram, "goal": goal}

    @property
    def words(self) -> tuple[str, ...]:
        wishes = [word for _, option, setting in self.goal for word in (option, str(setting))]
        ram = ["--ram", f"{self.ram}GB"] if self.ram else []
        return ("plan", self.model, "--box", self.box, *ram, *wishes, "--json")

    def __str__(self) -> str:
        return " ".join(self.words[1:-1])


def plan_requests(count: int, seed: int = 31) -> list[Request]:
    draw = random.Random(seed)
    models = sorted(row.id for row in catalog.models())
    boxes = sorted(row.id for row in catalog.boxes())
    gpus = sorted(row.id for row in catalog.gpus())
    return [_request(draw, models, boxes, gpus) for _ in range(count)]


def _request(draw: random.Random, models: list[str], boxes: list[str], gpus: list[str]) -> Request:
    box = draw.choice(boxes) if draw.random() < 0.7 else f"{draw.choice((1, 2, 4, 8))}x-{draw.choice(gpus)}"
    wishes: list[tuple[str, str, Any]] = [
        ("context_tokens", "--context", draw.choice((8192, 32768, 100_000, 131_072, 262_144))),
        ("users", "--users", draw.choice((2, 4, 16))),
        ("use", "--use", draw.choice(USES)),
        ("kv_dtype", "--kv-dtype", draw.choice(("bf16", "fp8", "q8_0", "f16"))),
        ("engine", "--engine", draw.choice(("vllm", "sglang", "llama.cpp", "ik_llama.cpp"))),
        ("memory_fraction", "--gpu-memory-utilization", draw.choice((0.8, 0.9, 0.95))),
    ]
    taken = tuple(wish for wish in wishes if draw.random() < 0.3)
    return Request(draw.choice(models), box, draw.choice((None, None, 64, 512, 1536)), taken)
