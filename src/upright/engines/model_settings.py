"""Settings that every engine takes from the model's row: draft, thinking mode, sampling, remote code.

Also what vLLM and SGLang say alike: settings and notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upright.engines.facets.flags import FlagCase
from upright.engines.facets.speculation import Candidate
from upright.engines.gpu_settings import is_sm12
from upright.facts.catalog.rows.model import Draft, ModelRow
from upright.facts.records.box import Box
from upright.facts.records.plan import Parallel, Plan
from upright.facts.records.recipe import Setting

NON_THINKING_BELOW_TOKENS_PER_SECOND = 30
MOST_SEQUENCES, LEAST_SEQUENCES = 256, 4


def sequences(plan: Plan) -> int:
    """Requests admitted at once: what the plan has room for, and never fewer than an agent's side calls need."""
    if plan.goal.sequences is not None:
        return plan.goal.sequences
    return most_sequences(plan.goal.users, plan.users_at_context)


def most_sequences(users: int, users_at_context: int) -> int:
    return min(MOST_SEQUENCES, max(users, users_at_context, LEAST_SEQUENCES))


def whole_experts_words(parallel: Parallel) -> str:
    """Why experts are not sliced."""
    ranks = parallel.tensor * parallel.data
    why = "replicas of attention share them" if parallel.data > 1 else "their width cannot be divided by as many"
    return f"whole experts on each of {ranks} ranks: {why}"


def planned_draft(row: ModelRow | None, plan: Plan, box: Box) -> Draft | None:
    """The draft to use if the plan has room for one. None if it has not, or nobody made one."""
    if not plan.goal.draft or row is None:
        return None
    wrong = "mha" if is_sm12(box) else None
    fitting = [
        known_draft for known_draft in row.drafts if known_draft.attention != wrong or known_draft.attention is None
    ]
    if not is_sm12(box):
        # Off SM 12.x the published runs use the draft with plain attention.
        fitting = sorted(fitting, key=lambda known_draft: known_draft.attention != "mha")
    return fitting[0] if fitting else None


def draft_candidate(case: FlagCase) -> tuple[Candidate, str] | None:
    """The catalogue's draft as a candidate, and where that is known from; None without one."""
    chosen_draft = planned_draft(case.row, case.plan, case.box)
    if chosen_draft is None:
        return None
    where = None if chosen_draft.method == "mtp" else case.serving.draft_path or chosen_draft.repository
    source = chosen_draft.note or f"catalogue, drafts of {case.row.id if case.row else 'the model'}"
    return Candidate(chosen_draft.method, where), source


def draft_path(case: FlagCase) -> str | None:
    """The draft's weights, which are fetched as the model's are; None if it brings them itself, or has none."""
    wanted = draft_candidate(case)
    return wanted[0].draft if wanted else None


def experts_offloaded(plan: Plan) -> bool:
    return any(place.device == "host" for place in plan.expert_places) and any(
        budget.device != "host" for budget in plan.budgets
    )


def non_thinking_arguments(row: ModelRow | None, plan: Plan) -> dict[str, Any] | None:
    """Template arguments that switch thinking off, when decode is too slow to think aloud; None to leave it on.

    Experts offloaded to CPU decode at 15 to 21 tok/s on published boxes, below the 30 at which thinking is bearable.
    """
    if row is None or row.thinking is None or not experts_offloaded(plan):
        return None
    template_kwargs = (row.thinking.switch_off or {}).get("chat_template_kwargs")
    return dict(template_kwargs) if isinstance(template_kwargs, dict) else None


def sampling(row: ModelRow | None, *, instant: bool) -> dict[str, float]:
    """The maker's settings for that mode; empty if the row does not say."""
    if row is None:
        return {}
    return row.sampling.get("instant" if instant else "thinking", row.sampling.get("default", {}))


def needs_remote_code(case: FlagCase) -> bool:
    """Whether a repository that the catalogue names so brings code, and this artifact of it does (if it was read)."""
    known = case.row is not None and case.row.own_code is not None
    return known and case.model.own_code != ()


def has_unlisted_code(case: FlagCase) -> bool:
    """A tokenizer in Python that the catalogue says nothing of: it runs only if a person wants it to."""
    known = case.row is not None and case.row.own_code is not None
    return not known and "AutoTokenizer" in (case.model.own_code or ())


def without_prefix_cache(name: str, source: str) -> Setting:
    """As it was asked for."""
    reason = "you asked for it: nothing of a prompt is kept for the next one; an agent's turns read all of it again"
    return Setting(name=name, reason=reason, source=source)


def artifact_words(case: FlagCase) -> str:
    """What `--model` names, and how it is known."""
    if case.model.basis == "read":
        return "the artifact that was read and planned"
    return "the artifact that was planned, by the catalogue's figures"


def remote_code_settings(case: FlagCase, source: str) -> Iterator[Setting]:
    if needs_remote_code(case):
        pinned = case.model.revision is not None
        yield Setting(
            name="--trust-remote-code",
            reason="the repository brings its own configuration and tokenizer"
            + ("" if pinned else "; pin its revision, see the notes"),
            source=source,
        )


def shared_notes(case: FlagCase) -> Iterator[str]:
    version = case.plan.engine_version
    if case.accepted.version and version not in (None, case.accepted.version):
        yield (
            f"The flags of {version} were never recorded; these are the ones that {case.accepted.version} takes. "
            "Run `upright check`."
        )
    if needs_remote_code(case) and case.model.revision is None:
        yield (
            "The model's own code is run and no revision is pinned: fetch a revision that you trust "
            "(upright fetch OWNER/NAME@REVISION) and serve that."
        )
    if has_unlisted_code(case):
        yield (
            "This artifact brings its tokenizer as Python code (auto_map in tokenizer_config.json), which engines run "
            "only with --trust-remote-code. The recipe leaves that out: read the code first, then add the flag."
        )
    if case.plan.goal.draft and planned_draft(case.row, case.plan, case.box) is None:
        yield "Room for a draft model was planned, but the catalogue knows none for this model on this silicon."
    if case.plan.parallel.nodes > 1:
        yield (
            "Start every box's command; the first one serves when all are there. Name the fast interface on each "
            "(NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), or the ranks may talk over the slow one without a word."
        )
