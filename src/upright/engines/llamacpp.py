"""llama.cpp: Plan -> `llama-server` flags.

Flags differ between builds (`--no-mmap` is gone, `--jinja` became the default): what is written here is taken by every
build since b8681, and `upright check` asks the build itself.
"""

from __future__ import annotations

import re

from upright.engines.engine import Serving
from upright.records.box import Box
from upright.records.model import MlaAttention, Model
from upright.records.plan import Plan
from upright.records.recipe import KEY_FILE, Setting

_SERVER_README = "llama.cpp tools/server/README.md"
_CAUSES = (
    re.compile(r"(error loading model.*|failed to load model.*|couldn't bind.*|unable to allocate.*|GGML_ASSERT.*)"),
    re.compile(r"(error: .*)"),
)


class LlamaCpp:
    """Mainline llama.cpp's HTTP server."""

    name = "llama.cpp"
    health_path = "/health"
    metrics_path: str | None = "/metrics"
    where_from = "Debian's llama.cpp-tools, Homebrew's llama.cpp, or https://github.com/ggml-org/llama.cpp/releases"

    def arguments(self, plan: Plan, model: Model, box: Box, serving: Serving) -> tuple[Setting, ...]:
        return (
            *_where_it_serves(serving),
            *_memory(plan),
            *_guards(model, box),
            Setting(
                name="--jinja",
                reason="the model's own chat template renders tools; off by default in older builds",
                source=_SERVER_README,
            ),
            Setting(name="--metrics", reason="counters for proofs and benchmarks", source=_SERVER_README),
            Setting(name="--no-webui", reason="an endpoint for clients; no page that asks for the key"),
            Setting(name="--offline", reason="the engine fetches nothing behind your back", source=_SERVER_README),
            Setting(
                name="--log-verbosity",
                value="4",
                reason="buffer sizes are logged only from here up (b11669); the plan is checked against them",
                source="llama.cpp b11669 --help",
            ),
        )

    def environment(self, plan: Plan, model: Model, box: Box) -> tuple[Setting, ...]:
        return ()

    def failure(self, log_tail: str) -> str | None:
        for pattern in _CAUSES:
            if found := pattern.search(log_tail):
                return found[1].strip()
        return None


def _where_it_serves(serving: Serving) -> tuple[Setting, ...]:
    return (
        Setting(name="--model", value=serving.model_path, reason="the artifact that was read and planned"),
        Setting(name="--alias", value=serving.served_name, reason="the name that clients use"),
        Setting(name="--host", value=serving.host, reason="bind loopback unless told otherwise"),
        Setting(name="--port", value=str(serving.port), reason="where clients knock"),
        Setting(
            name="--api-key-file",
            value=KEY_FILE,
            reason="the key stays out of process listings; /health alone needs none",
            source=_SERVER_README,
        ),
    )


def _memory(plan: Plan) -> tuple[Setting, ...]:
    users = plan.goal.users
    return (
        Setting(
            name="--ctx-size",
            value=str(plan.context_tokens * users),
            reason=f"{plan.context_tokens:,} tokens for each of {users} user{'s' if users > 1 else ''}; "
            "the server divides it by --parallel",
        ),
        Setting(
            name="--parallel", value=str(users), reason="requests served at once, each with a slot of its own context"
        ),
        Setting(
            name="--cache-type-k", value=plan.kv.dtype, reason="the cache type that the plan counted", source="the plan"
        ),
        # Guard: MLA models refuse different K and V types, so both are always given (llama.cpp b11669, llama-context).
        Setting(
            name="--cache-type-v",
            value=plan.kv.dtype,
            reason="must equal the K type on MLA models",
            source="llama.cpp b11669: 'model does not support different K and V cache types'",
        ),
    )


def _guards(model: Model, box: Box) -> tuple[Setting, ...]:
    has_mla = any(isinstance(layers, MlaAttention) for layers in model.architecture.attention)
    has_amx = any(flag.startswith("amx") for flag in box.cpu.flags)
    if has_mla and has_amx:
        # Guard: the AMX build aborts on every deepseek2 model: GGML_ASSERT(*cur_backend_id != -1), b8681 and b11669.
        return (
            Setting(
                name="--no-repack",
                reason="this CPU has AMX, and llama.cpp's AMX weights abort on MLA models",
                source="seen on b8681 and b11669: GGML_ASSERT(*cur_backend_id != -1)",
            ),
        )
    return ()
