"""A plan's limits: longest context, users at its context, the model's own; and ledger lines without a band."""

from __future__ import annotations

from upright.base.units import format_tokens
from upright.facts.records.base import Basis
from upright.facts.records.model import Model
from upright.facts.records.plan import LedgerLine, Objection, Plan


def exact_line(device: str, term: str, count: int, why: str, basis: Basis = "derived") -> LedgerLine:
    return LedgerLine(device=device, term=term, bytes=count, low_bytes=count, high_bytes=count, basis=basis, why=why)


def bounded_line(device: str, term: str, count: int, ranks: int, why: str, basis: Basis) -> LedgerLine:
    """Bytes that each of so many ranks holds whole at most, and divided at least."""
    return LedgerLine(
        device=device, term=term, bytes=count, low_bytes=count // ranks, high_bytes=count, basis=basis, why=why
    )


def rounded_down(count: int, step: int) -> int:
    return count // step * step


def with_limits(plan: Plan, model: Model, *, longest_tokens: int | None = None, most_users: int | None = None) -> Plan:
    """The plan with the longest context for one user, the users at its context, and the model's own limit."""
    limit = model.architecture.context_limit_tokens
    sure = plan.kv.low_tokens
    alone = sure if longest_tokens is None else longest_tokens
    users = sure // plan.context_tokens
    objections = list(plan.objections)
    if limit is not None and plan.context_tokens > limit:
        objections.insert(
            0,
            Objection(
                code="context-too-long",
                message=(
                    f"{model.name} was made for {format_tokens(limit)} tokens, not {format_tokens(plan.context_tokens)}"
                ),
                remedy=f"--context {limit}",
            ),
        )
    return plan.model_copy(
        update={
            "largest_context_tokens": min(alone, limit) if limit else alone,
            "users_at_context": users if most_users is None else min(users, most_users),
            "objections": tuple(objections),
        }
    )
