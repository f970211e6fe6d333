"""llama.cpp: Plan -> `llama-server` flags.

Flags differ between builds (`--no-mmap` is gone, `--jinja` became the default): what is written here is taken by every
build since b8681, and `upright check` asks the build itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from upright.base.units import GIB
from upright.engines import dialects, model_settings
from upright.engines.facets.flags import FlagCase, Flags
from upright.engines.facets.tiers import host_cache_settings, saved_prompts
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import KEY_FILE, UNKNOWN_FOLDER, Setting

SERVER_README = "llama.cpp tools/server/README.md"
LOCAL_RUN = "Running Kimi-K2.6 Locally (2026-04)"
ALL_LAYERS = "999"
DISK = (
    "llama-server puts nothing on disk by itself: with --slot-save-path a client saves and restores a slot "
    "(POST /slots/ID?action=save)"
)
TIERS = saved_prompts("--cache-ram", 8 * GIB, "llama.cpp b11669 --help: 8192 MiB by default", disk=DISK)


class LlamaCppFlags:
    """The words of mainline llama.cpp's HTTP server."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        return (
            *address_settings(case),
            *memory_settings(case.plan),
            *_value_cache(case.plan),
            *host_cache_settings(case, TIERS),
            *offload_settings(case),
            *thread_settings(case),
            *_guards(case.model, case.box),
            *chat_settings(case),
            *_habits(case),
        )

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return ()

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return (*shared_notes(case), *dialects.doubt_notes(case, "llama.cpp"))


FLAGS: Flags = LlamaCppFlags()


def address_settings(case: FlagCase) -> tuple[Setting, ...]:
    serving = case.serving
    return (
        Setting(
            name="--hf-repo" if serving.from_hub else "--model",
            value=serving.model_path,
            reason=model_settings.artifact_words(case),
        ),
        Setting(name="--alias", value=serving.served_name, reason="the name that clients use"),
        Setting(name="--host", value=serving.host, reason="bind loopback unless told otherwise"),
        Setting(name="--port", value=str(serving.port), reason="port of the OpenAI-compatible API"),
        Setting(
            name="--api-key-file",
            value=KEY_FILE,
            reason="the key stays out of process listings; /health alone needs none",
            source=SERVER_README,
        ),
    )


def memory_settings(plan: Plan) -> tuple[Setting, ...]:
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
    )


def offload_settings(case: FlagCase) -> Iterator[Setting]:
    """Layers on the GPUs, and the experts where the plan put them."""
    if not case.box.gpus:
        return
    elsewhere = model_settings.experts_offloaded(case.plan)
    yield Setting(
        name="--n-gpu-layers",
        value=ALL_LAYERS,
        reason="every layer's attention on the GPUs; where the experts are is named below"
        if elsewhere
        else "every layer on the GPUs: all of them fit",
    )
    yield from _layer_split(case.plan)
    yield Setting(name="--flash-attn", value="on", reason="takes a value in both forks now; bare it eats the next word")
    if case.plan.ubatch_tokens:
        batch = max(2048, 2 * case.plan.ubatch_tokens)
        yield Setting(name="--batch-size", value=str(batch), reason="tokens of a prompt handed over at once")
        yield Setting(
            name="--ubatch-size",
            value=str(case.plan.ubatch_tokens),
            reason="tokens computed at once, as the plan counted them; larger is faster at prefill",
            source=LOCAL_RUN,
        )
    for place in case.plan.expert_places:
        if place.device != "host" and elsewhere:
            yield Setting(
                name="--override-tensor",
                value=f"{experts_pattern(place.layers)}=CUDA{place.device[3:]}",
                reason=f"routed experts of {len(place.layers)} layers on {place.device}: what the plan found room for",
                source=LOCAL_RUN,
            )
    if elsewhere:
        yield Setting(
            name="--override-tensor",
            value="exps=CPU",
            reason="the other routed experts, offloaded to CPU; the first pattern that matches wins: this one is last",
            source=LOCAL_RUN,
        )


def _layer_split(plan: Plan) -> Iterator[Setting]:
    """On GPUs of several kinds: whole layers, so many on each as the plan counted; the output matrix is one more."""
    if len(plan.layer_places) < 2:
        return
    *before, last = (place.layers for place in plan.layer_places)
    yield Setting(name="--split-mode", value="layer", reason="whole layers on each GPU: cards need not be alike")
    yield Setting(
        name="--tensor-split",
        value=",".join(map(str, (*before, last + 1))),
        reason="layers of each GPU, as the plan placed them, and one for the output matrix on the last",
        source="llama.cpp src/llama-model.cpp, load_tensors",
    )


def thread_settings(case: FlagCase) -> Iterator[Setting]:
    """Where experts are computed by the CPU. Without GPUs the engine's own choice is good."""
    cores, logical = case.box.cpu.cores, case.box.cpu.threads
    if not model_settings.experts_offloaded(case.plan) or not cores:
        return
    yield Setting(
        name="--threads",
        value=str(max(1, cores - 1)),
        reason="decode is bound by memory: a thread a core, one core left for the GPUs' driver",
        source=LOCAL_RUN,
    )
    yield Setting(
        name="--threads-batch",
        value=str(logical or cores),
        reason="prompts are bound by arithmetic: every hardware thread",
        source=LOCAL_RUN,
    )


def chat_settings(case: FlagCase) -> Iterator[Setting]:
    yield Setting(
        name="--jinja",
        reason="the model's own chat template renders tools; off by default in ik_llama.cpp and older builds",
        source=SERVER_README,
    )
    off = model_settings.non_thinking_arguments(case.row, case.plan)
    if off is None:
        return
    yield Setting(
        name="--chat-template-kwargs",
        value=json.dumps(off, separators=(",", ":")),
        reason=f"offloaded experts decode below {model_settings.NON_THINKING_BELOW_TOKENS_PER_SECOND} tok/s: "
        "non-thinking mode; a request can still ask for thinking",
        source=LOCAL_RUN,
    )
    for name, number in model_settings.sampling(case.row, instant=True).items():
        flag = {"temperature": "--temp", "top_p": "--top-p"}.get(name)
        if flag:
            yield Setting(name=flag, value=f"{number:g}", reason="the maker's setting for non-thinking mode")


def shared_notes(case: FlagCase) -> Iterator[str]:
    yield from dialects.template_notes(case)
    if case.serving.from_hub:
        yield (
            "llama-server fetches the weights itself, into the hub cache; "
            f"`upright fetch {case.model.source}` fills it too, goes on where it was cut, and checks what came."
        )
    elif case.serving.model_path.startswith(UNKNOWN_FOLDER):
        yield (
            f"Where the weights are is not known: `upright fetch {case.model.source}` brings them and prints the path; "
            f"say it with --model-path, or as MODEL_PATH."
        )
    if case.serving.vision and case.model.architecture.vision:
        yield "Images need the projector file (--mmproj), which no plan counts yet: served as text only."
    if any(isinstance(kind, MlaAttention) for kind in case.model.architecture.attention):
        yield "response_format with a JSON schema is silently ignored with the Kimi template: prove structured output."


def _value_cache(plan: Plan) -> tuple[Setting, ...]:
    # Guard: MLA models refuse different K and V types, so both are always given (llama.cpp b11669, llama-context).
    return (
        Setting(
            name="--cache-type-v",
            value=plan.kv.dtype,
            reason="must equal the K type on MLA models",
            source="llama.cpp b11669: 'model does not support different K and V cache types'",
        ),
    )


def _habits(case: FlagCase) -> Iterator[Setting]:
    yield Setting(name="--metrics", reason="counters for proofs and benchmarks", source=SERVER_README)
    if not case.serving.prefix_caching:
        yield model_settings.without_prefix_cache("--no-cache-prompt", SERVER_README)
    yield Setting(name="--no-webui", reason="an endpoint for clients; no page that asks for the key")
    if not case.serving.from_hub:
        yield Setting(name="--offline", reason="the engine fetches nothing behind your back", source=SERVER_README)
    else:
        yield Setting(name="--no-mmproj", reason="no plan counts the projector, which it would fetch too")
    if case.box.gpus and "--fit" in case.accepted:
        yield Setting(
            name="--fit", value="off", reason="the plan decided what goes where", source="llama.cpp b11669 --help"
        )
    yield Setting(
        name="--log-verbosity",
        value="4",
        reason="buffer sizes are logged only from here up (b11669); the plan is checked against them",
        source="llama.cpp b11669 --help",
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


def layers_pattern(layers: Iterable[int]) -> str:
    r"""`[1-9]|5[2-9]|60`: numbers that share all but the last digit become one class."""
    tens: dict[int, list[int]] = {}
    for layer in sorted(set(layers)):
        tens.setdefault(layer // 10, []).append(layer % 10)
    return "|".join(f"{ten or ''}{_digits(digits)}" for ten, digits in tens.items())


def experts_pattern(layers: Sequence[int]) -> str:
    """Routed experts of these layers, whether gate and up are stored apart or fused; shared experts are not meant."""
    return rf"blk\.({layers_pattern(layers)})\.ffn_.*_exps"


def _digits(digits: Sequence[int]) -> str:
    if len(digits) == 1:
        return str(digits[0])
    if len(digits) > 2 and digits[-1] - digits[0] == len(digits) - 1:
        return f"[{digits[0]}-{digits[-1]}]"
    return f"[{''.join(map(str, digits))}]"
