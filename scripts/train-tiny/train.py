"""Stages of dialogues -> weights: data-parallel over processes of one thread each, by steps and not by the clock.

Two processes of one thread were faster than one of two threads. The same seed and number of processes give the same
weights on the same machine; every log line says how many answers of each skill were exactly right.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
import torch.distributed
import torch.multiprocessing
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from circuits import preset
from eagle import EAGLE3, Head
from model import DRAFT, TINY, Model
from skills import SHARES, dialogue
from tokens import Encoder

Row = tuple[str, list[int], list[bool]]
Batch = tuple[list[str], Tensor, Tensor]


@dataclass(frozen=True)
class Stage:
    """Some steps with dialogues up to a length, at a learning rate that moves evenly from first to last."""

    steps: int
    longest_tokens: int
    first_rate: float
    last_rate: float
    long_share: float = 0.0
    """Part of the batches that hold dialogues between 320 tokens and the longest."""
    rounded: bool = False
    """Forward through weights rounded to bf16, as the engines will see them."""


STAGES = {
    "tiny": (
        Stage(400, 160, 2e-3, 2e-3),
        Stage(500, 256, 2e-3, 2e-3),
        Stage(800, 512, 2e-3, 1.2e-3, long_share=0.3),
        Stage(800, 1024, 1.2e-3, 5e-4, long_share=0.25),
        Stage(350, 2048, 6e-4, 3e-4, long_share=0.1),
        Stage(150, 8200, 3e-4, 2e-5, long_share=0.1, rounded=True),
    ),
    "draft": (Stage(500, 256, 2e-3, 1e-3), Stage(150, 1024, 1e-3, 1e-4, long_share=0.2, rounded=True)),
    "eagle3": (Stage(450, 256, 2e-3, 1e-3), Stage(150, 1024, 1e-3, 1e-4, long_share=0.2, rounded=True)),
}
SHAPES = {"tiny": TINY, "draft": DRAFT, "eagle3": EAGLE3}
LONG_SKILLS = ("needle", "needle", "needle", "needle", "counting")
_PADDED_TOKENS = 1280
_POOL = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=STAGES)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path, help="weights, also read to go on from where a run was ended")
    parser.add_argument("--target", type=Path, help="the trained tiny model, which a draft and a head guess for")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.name != "tiny" and args.target is None:
        parser.error(f"{args.name} guesses for a model: --target")
    torch.multiprocessing.spawn(_work, (args,), nprocs=args.processes)


def _work(rank: int, args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29581")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=args.processes)
    torch.manual_seed(args.seed)
    model = _model(args.name, args.target)
    encoder = Encoder(Tokenizer.from_file(str(args.tokenizer)))
    trainer = Trainer(model, encoder.padding, args.out, rank, args.processes)
    begin = trainer.resume()
    step = 0
    for number, stage in enumerate(STAGES[args.name]):
        if step + stage.steps <= begin:
            step += stage.steps
            continue
        first = max(0, begin - step)
        batches = _batches(
            encoder, stage, Random(f"{args.seed} {rank} {number} {first}"), Random(f"{args.seed} {number} {first}")
        )
        for local in range(first, stage.steps):
            trainer.step(next(batches), stage, local / stage.steps, step + local + 1)
        step += stage.steps
    trainer.save(step)
    torch.distributed.destroy_process_group()


def _model(name: str, target: Path | None) -> Model | Head:
    """Untrained, but not from nothing: a draft begins with its target's first layers, a head reads its target."""
    if target is None:
        model = Model(SHAPES[name])
        preset(model)
        return model
    trained = torch.load(target)["model"]
    if name == "eagle3":
        whole = Model(TINY)
        whole.load_state_dict(trained)
        return Head(EAGLE3, whole)
    model = Model(SHAPES[name])
    own = model.state_dict()
    model.load_state_dict({**own, **{key: value for key, value in trained.items() if key in own}})
    return model


def _batches(encoder: Encoder, stage: Stage, own: Random, shared: Random) -> Iterator[Batch]:
    """Batches of about the same padded size on all processes; long and short ones fall together."""
    skills, weights = list(SHARES), list(SHARES.values())
    short: list[list[Row]] = []
    while True:
        if shared.random() < stage.long_share:
            length = shared.randint(320, stage.longest_tokens)
            count = max(1, _PADDED_TOKENS // length)
            skill = shared.choice(LONG_SKILLS)
            yield _pad(
                [_row(encoder, skill, own, min(length, 4000 if skill == "counting" else 8200)) for _ in range(count)],
                encoder,
            )
            continue
        if not short:
            limit = min(stage.longest_tokens, 320)
            rows = [
                _row(encoder, skill, own, own.randint(96, limit)) for skill in own.choices(skills, weights, k=_POOL)
            ]
            short = list(_packed(sorted(rows, key=lambda row: len(row[1]))))
            own.shuffle(short)
        yield _pad(short.pop(), encoder)


def _row(encoder: Encoder, skill: str, rng: Random, tokens: int) -> Row:
    return (skill, *encoder(dialogue(skill, rng, tokens)))


def _packed(rows: list[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        if batch and (len(batch) + 1) * len(row[1]) > _PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def _pad(rows: list[Row], encoder: Encoder) -> Batch:
    length = max(len(ids) for _, ids, _ in rows)
    ids = torch.full((len(rows), length), encoder.padding)
    learned = torch.zeros(len(rows), length, dtype=torch.bool)
    for place, (_, row, mask) in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        learned[place, : len(mask)] = torch.tensor(mask)
    return [skill for skill, _, _ in rows], ids, learned


class Trainer:
    """The model, its optimiser, and what the log says."""

    def __init__(self, model: Model | Head, padding: int, out: Path, rank: int, processes: int) -> None:
        self.model, self.padding, self.out, self.rank, self.processes = model, padding, out, rank, processes
        self.parameters = [item for item in model.parameters() if item.requires_grad]
        wide = [item for item in self.parameters if item.dim() > 1]
        narrow = [item for item in self.parameters if item.dim() == 1]
        groups = [{"params": wide, "weight_decay": 0.02}, {"params": narrow, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.97), fused=True)
        self.started = self.logged = self.saved = time.monotonic()
        self.tokens = 0
        self.right: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def resume(self) -> int:
        if not self.out.exists():
            return 0
        state = torch.load(self.out)
        self.model.load_state_dict(state["model"])
        if "optimiser" in state:
            self.optimiser.load_state_dict(state["optimiser"])
        return int(state["step"])

    def step(self, batch: Batch, stage: Stage, progress: float, number: int) -> None:
        rate = stage.first_rate + (stage.last_rate - stage.first_rate) * progress
        for group in self.optimiser.param_groups:
            group["lr"] = rate * min(1.0, number / 40)
        kept = [item.data for item in self.parameters]
        if stage.rounded:
            for item in self.parameters:
                item.data = item.data.bfloat16().float()
        loss = self._loss(*batch)
        loss.backward()
        for item, data in zip(self.parameters, kept, strict=True):
            item.data = data
        norm = self._share()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        self.model.balance()
        if number % 50 == 0 and self.rank == 0:
            self._log(number, loss.item(), norm, rate)

    def _loss(self, skills: list[str], ids: Tensor, learned: Tensor) -> Tensor:
        wanted = learned[:, 1:]
        logits, targets = self.model(ids[:, :-1], wanted), ids[:, 1:][wanted]
        wrong = torch.zeros_like(wanted)
        wrong[wanted] = logits.argmax(-1) != targets
        for place, skill in enumerate(skills):
            begins = wanted[place] & ~functional.pad(wanted[place, :-1], (1, 0))
            turn = begins.cumsum(0)
            length = int((ids[place] != self.padding).sum()) if skill == "needle" else 0
            name = f"{skill}<{1 << (length - 1).bit_length()}" if length > 512 else skill
            self.right[name][1] += int(turn[-1])
            self.right[name][0] += int(turn[-1]) - len(set(turn[wrong[place]].tolist()))
        self.tokens += ids.numel()
        return functional.cross_entropy(logits, targets)

    def _share(self) -> float:
        """Mean of the gradients and of the experts' load over the processes; the norm before clipping to 1."""
        gradients = torch.cat([item.grad.flatten() for item in self.parameters if item.grad is not None])
        torch.distributed.all_reduce(gradients)
        gradients /= self.processes
        norm = float(gradients.norm())
        gradients *= min(1.0, 1.0 / (norm + 1e-6))
        place = 0
        for item in self.parameters:
            assert item.grad is not None
            item.grad.copy_(gradients[place : place + item.numel()].view_as(item))
            place += item.numel()
        for router in self.model.routers():
            torch.distributed.all_reduce(router.load)
        return norm

    def _log(self, number: int, loss: float, norm: float, rate: float) -> None:
        now = time.monotonic()
        speed = self.processes * self.tokens / (now - self.logged)
        exact = " ".join(f"{name} {100 * good / every:.0f}" for name, (good, every) in sorted(self.right.items()))
        state = f"loss {loss:.3f}  norm {norm:.2f}  rate {rate:.1e}  {speed:.0f} tokens/s"
        print(f"{now - self.started:5.0f} s  step {number}  {state} | {exact}", flush=True)
        self.right.clear()
        self.tokens, self.logged = 0, now
        if now - self.saved > 60:
            self.save(number)
            self.saved = now

    def save(self, number: int) -> None:
        if self.rank == 0 and not math.isnan(self.parameters[0].sum().item()):
            waiting = self.out.with_suffix(".writing")
            torch.save(
                {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(), "step": number}, waiting
            )
            waiting.replace(self.out)


if __name__ == "__main__":
    main()
