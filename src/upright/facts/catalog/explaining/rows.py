"""The explanation of a row, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upright.base import units
from upright.facts.catalog.explaining.explanation import Explanation
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.catalog.rows.advisory import AdvisoryRow
from upright.facts.catalog.rows.base import Fact, Row
from upright.facts.catalog.rows.constraint import ConstraintRow
from upright.facts.catalog.rows.engine import CompatRow, FlagRow, ImageRow
from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.catalog.rows.hardware import BoxRow, GpuRow, LinkRow
from upright.facts.catalog.rows.memory import PoolRow
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.catalog.rows.setting import SettingRow
from upright.facts.catalog.rows.words import FamilyRow, GgmlTypeRow, MeasurementRow, TermRow
from upright.facts.records.diagnosis import Remedy

Facts = list[tuple[str, str]]

_VERBS = {"set": "set", "unset": "take out", "raise": "raise", "lower": "lower"}
_OTHERS = {
    "use_version": "take version {}", "use_image": "take the image {}",
    "use_patch": "apply the patch {}", "use_engine": "run it on {}", "use_artifact": "take another artifact",
}  # fmt: skip


def explain_row(kind: str, row: Row) -> Explanation:
    """By the kind's own words where it has them."""
    make: Callable[[Any], dict[str, Any]] = _MAKERS.get(kind, _by_fields)
    made = make(row)
    return Explanation(
        **{
            "kind": kind.removesuffix("es") if kind.endswith("ches") else kind.rstrip("s"),
            "name": row.id,
            "grade": row.grade,
            "sources": row.sources,
            "owner": row.owner,
            **made,
        }
    )


def remedy_words(remedy: Remedy) -> str:
    """The change as one line."""
    scope = f"{remedy.engine}: " if remedy.engine else ""
    verb, _, thing = remedy.do.partition("_")
    if verb in _VERBS and thing in ("flag", "env"):
        setting_text = f" {'=' if thing == 'env' else ''}{remedy.value}".replace(" =", "=") if remedy.value else ""
        change = (
            f"{_VERBS[verb]} {remedy.name}{' to' if verb in ('raise', 'lower') and setting_text else ''}{setting_text}"
        )
        return f"{scope}{change}: {remedy.why}"
    if remedy.do == "other_port":
        return f"{scope}take {f'port {remedy.value}' if remedy.value else 'another port'}: {remedy.why}"
    if remedy.do in _OTHERS:
        return f"{scope}{_OTHERS[remedy.do].format(remedy.value)}: {remedy.why}"
    return f"{scope}{remedy.why}"


_KNOWS = {
    "line": "this line: it names the cause",
    "class": "this class of lines: it names the cause",
    "part": "this part of an engine: a possibility",
    "words": "these words: a possibility",
}


def _failure(row: FailureRow) -> dict[str, Any]:
    facts: Facts = [("severity", row.severity), ("engines", ", ".join(row.engines)), ("knows", _KNOWS[row.knowledge])]
    facts += [("part", row.part)] if row.part is not None else []
    facts += [("test", row.test)] if row.test is not None else []
    if row.versions != "*":
        facts.append(("versions", row.versions))
    if row.silence_seconds is not None:
        facts.append(("alarm", f"only after {row.silence_seconds} s of silence: the line itself is normal"))
    if row.when:
        facts.append(("when", row.when))
    facts.append(("pattern", row.pattern))
    facts += [("seen", seen.line) for seen in row.seen] if row.seen != "none" else [("seen", "no line on record")]
    return {
        "title": row.title,
        "what": row.cause,
        "do": tuple(remedy_words(remedy) for remedy in row.remedies),
        "facts": tuple(facts),
        "see": tuple(dict.fromkeys(remedy.name for remedy in row.remedies if remedy.name)),
    }


def _advisory(row: AdvisoryRow) -> dict[str, Any]:
    facts: Facts = [("also called", ", ".join(row.aliases))] if row.aliases else []
    for part in row.affected:
        facts.append(("affected", f"{part.engine} {part.versions}"))
        facts.append(("fixed in", part.mended_in or "no version that is known"))
        facts += [("note", part.note)] if part.note else []
    facts += [("danger", row.danger), ("reached", _REACHED[row.reach])]
    facts += [("only with", " or ".join(row.needs))] if row.needs else []
    facts += [("accepted", row.accepted)] if row.accepted else []
    return {
        "kind": "advisory", "title": row.title, "what": row.allows, "facts": tuple(facts), "do": (row.instead,),
        "see": tuple(need for need in row.needs if need.startswith("--")),
    }  # fmt: skip


def _constraint(row: ConstraintRow) -> dict[str, Any]:
    facts: Facts = [("engine", row.engine), ("force", f"{row.force}: {row.demand.fact}")]
    facts += [(name, str(held)) for name, held in row.when.model_dump(mode="json", exclude_defaults=True).items()]
    return {
        "kind": "constraint", "title": row.title, "what": row.about, "facts": tuple(facts), "do": (row.instead,),
        "see": tuple(name.partition("/")[2] for name in row.rows),
    }  # fmt: skip


_REACHED = {
    "model": "by the model's own files",
    "network": "by whoever reaches the port, without the key",
    "client": "by whoever has the key",
    "nodes": "by whoever reaches the ports between the boxes of one model",
    "image": "in the container image",
    "elsewhere": "in a part that no recipe of Upright starts",
}


def _flag(row: FlagRow) -> dict[str, Any]:
    facts: Facts = [("spelled", ", ".join(row.flags))]
    facts += [("takes", row.value)] if row.value else [("takes", "nothing: it stands alone")]
    facts += [("default", row.default)] if row.default else []
    facts.append(("recorded in", version_span(row.engine, versions_taking(row.engine, row.flags[0]))))
    facts += [("catch", row.catch)] if row.catch else []
    return {
        "kind": f"flag of {row.engine}", "name": row.flags[0], "what": row.means, "matters": row.matters,
        "facts": tuple(facts),
    }  # fmt: skip


def version_span(engine: str, versions: tuple[str, ...]) -> str:
    """`0.24.0 to 0.32.0 of 17 versions`, or that none takes it."""
    known = recorded_versions(engine)
    if not versions:
        return f"none of {len(known)} versions" if known else "no version is recorded"
    ends = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
    return ends if len(known) == 1 else f"{ends}, {len(versions)} of {len(known)} versions"


def _term(row: TermRow) -> dict[str, Any]:
    return {
        "kind": row.of, "name": row.word, "what": row.about, "matters": row.matters, "do": (row.do,) if row.do else (),
        "grade": row.grade if row.of == "plan term" else None,
    }  # fmt: skip


def _compat(row: CompatRow) -> dict[str, Any]:
    facts = [
        ("engine", f"{row.engine} {row.versions}{', patched builds' if row.patched else ''}"),
        ("silicon", row.compute_capability),
        ("backend", row.backend or "any"),
        ("status", row.status),
    ]
    return {
        "kind": "compatibility", "title": row.feature, "what": row.about, "facts": tuple(facts),
        "do": (row.instead,) if row.instead else (),
    }  # fmt: skip


def _image(row: ImageRow) -> dict[str, Any]:
    facts = [
        ("reference", row.reference),
        ("made by", f"{row.kind}, {row.date}"),
        ("engine", row.engine),
        ("silicon", row.compute_capability),
        ("contains", ", ".join(row.contains)),
    ]
    facts += [("version", row.version)] if row.version else []
    facts += [("commit", row.commit)] if row.commit else []
    facts += [("patches", ", ".join(row.patches))] if row.patches else []
    facts += [("packages", ", ".join(row.packages))] if row.packages else []
    facts += [("memory", row.profiler)] if row.profiler else []
    facts += [("variable", f"{setting.name}={setting.value}: {setting.reason}") for setting in row.variables]
    facts += [("flag", f"{setting.name} {setting.value or ''}: {setting.reason}") for setting in row.arguments]
    facts += [("breaks", sentence) for sentence in row.breaks]
    return {
        "what": row.about, "matters": row.caution, "facts": tuple(facts), "see": row.models,
        "do": ("pin the digest of what you pulled: tags move",),
    }  # fmt: skip


def _gpu(row: GpuRow) -> dict[str, Any]:
    facts = [
        ("compute capability", row.compute_capability),
        ("memory", f"{units.format_memory(row.memory_bytes)} {row.memory_kind}, as the driver reports it"),
        ("bandwidth", _said(row.memory_bandwidth_gb_s, "GB/s")),
        ("multiprocessors", _said(row.sm_count)),
        ("shared memory", f"{row.shared_memory_block_bytes:,} bytes a block"),
        ("fp4, dense", _said(row.fp4_tflops, "TFLOPS")),
        ("fp8, dense", _said(row.fp8_tflops, "TFLOPS")),
        ("bf16, dense", _said(row.bf16_tflops, "TFLOPS")),
        ("power", _said(row.power_w, "W")),
        ("links", _links(row)),
    ]
    of_nvidia = row.vendor == "nvidia"
    silicon = f"SM {row.compute_capability}" if of_nvidia else row.compute_capability
    small = of_nvidia and row.shared_memory_block_bytes <= 101376
    matters = (
        "Kernels tuned for 227 KiB of shared memory a block (SM 9.0, 10.x) do not start in its 99: the number 101376 "
        "in an error means this."
        if small
        else None
    )
    return {
        "title": row.name,
        "what": " ".join(row.notes) or f"A GPU of {silicon} with {row.memory_kind} memory.",
        "matters": matters, "facts": tuple(facts),
        "see": (*((row.compute_capability,) if of_nvidia else ()), *(("triton-shared-memory",) if small else ())),
    }  # fmt: skip


def _links(row: GpuRow) -> str:
    wire = "Infinity Fabric" if row.vendor == "amd" else "NVLink"
    pcie = f"PCIe {row.pcie_generation} x{row.pcie_lanes}" if row.pcie_generation else "no PCIe"
    return f"{pcie}, {wire} {_said(row.nvlink_gb_s, 'GB/s')}" if row.nvlink_gb_s.value else f"{pcie}, no {wire}"


def _box(row: BoxRow) -> dict[str, Any]:
    facts: Facts = [("GPUs", " + ".join(f"{group.count}x {group.gpu}" for group in row.gpu_groups) or "none")]
    if row.cpu:
        facts.append(("processor", row.cpu))
    memory = row.memory_bytes
    facts.append(("system RAM", units.format_memory(memory) if memory else "not said"))
    if row.memory_bandwidth_gb_s:
        facts.append(("its bandwidth", _said(row.memory_bandwidth_gb_s, "GB/s")))
    if row.numa_nodes:
        facts.append(("NUMA nodes", str(row.numa_nodes)))
    if row.switch_pairs:
        facts.append(("switch pairs", ", ".join(f"{a}-{b}" for a, b in row.switch_pairs)))
    facts.append(("NVLinks", str(row.nvlinks) if row.nvlinks else "none"))
    return {
        "kind": "box", "title": row.name, "what": " ".join(row.notes) or row.name, "facts": tuple(facts),
        "do": (f"upright plan MODEL --box {row.id}",), "see": (row.gpu,) if row.gpu else (),
    }  # fmt: skip


def _link(row: LinkRow) -> dict[str, Any]:
    facts = [("bandwidth", _said(row.bandwidth_gb_s, "GB/s"))] if row.bandwidth_gb_s else []
    facts += [("time", _said(row.latency_us, "µs"))] if row.latency_us else []
    facts += [("settings", row.settings)] if row.settings else []
    return {"what": f"Measured: {row.name}.", "facts": tuple(facts)}


def _model(row: ModelRow) -> dict[str, Any]:
    facts: Facts = [
        ("repository", row.repository),
        ("released", f"{row.released} by {row.maker}"),
        ("parameters", f"{_said(row.parameters)}, {_said(row.active_parameters)} a token"),
    ]
    if row.shape is not None:
        facts.append(("shape", _shape(row)))
        facts.append(("context", f"{units.format_tokens(row.shape.context_limit_tokens)} tokens"))
    facts += [("artifact", _artifact(artifact)) for artifact in row.artifacts]
    facts += [
        (f"in {engine}", f"tools {parsers.tool or '-'}, thinking {parsers.reasoning or '-'}")
        for engine, parsers in row.parsers.items()
        if parsers.tool or parsers.reasoning
    ]
    facts += [(f"sampling, {mode}", _settings(values)) for mode, values in row.sampling.items()]
    facts.append(("licence", row.licence.name))
    facts += [("it bites", clause) for clause in row.licence.bites]
    if row.vision is not None:
        without = f"; not in {', '.join(row.vision.engines_without)}" if row.vision.engines_without else ""
        facts.append(("sees", f"in {', '.join(row.vision.engines)}{without}"))
    facts += [("note", note) for note in (*((row.kv_note,) if row.kv_note else ()), *row.notes)]
    return {
        "title": row.name, "what": row.about, "facts": tuple(facts),
        "do": (f"upright plan {row.id} --box 8x-rtx-pro-6000-server",),
    }  # fmt: skip


def _shape(row: ModelRow) -> str:
    assert row.shape is not None
    kinds = " and ".join(f"{kind.layers} {kind.kind.upper()}" for kind in row.shape.attention)
    experts = row.shape.experts
    mixture = f", {experts.count} experts, {experts.active} a token" if experts else ""
    return f"{row.shape.layers} layers ({kinds}), {row.shape.hidden_size} wide{mixture}"


def _artifact(artifact: Artifact) -> str:
    name = f"{artifact.repository}:{artifact.quant}" if artifact.quant else artifact.repository
    size = artifact.size_bytes.value
    return f"{name}, {units.format_size(size) if size else 'size not published'}; {artifact.scheme}"


def _settings(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {number:g}" for name, number in values.items())


def _setting(row: SettingRow) -> dict[str, Any]:
    return {"kind": "host setting", "title": row.title, "what": row.trouble, "do": (row.change,)}


def _ggml_type(row: GgmlTypeRow) -> dict[str, Any]:
    size = f"{row.block_bytes} bytes for {row.block_elements} weights"
    if row.row_bytes:
        size += f", and {row.row_bytes} a row"
    who = "Only ik_llama.cpp loads it; mainline llama.cpp refuses the file." if row.ik_only else "Both engines load it."
    if not row.gpu_kernels:
        who += " No GPU multiplies by it: in system RAM such experts are the processor's, while a prompt is read too."
    return {
        "kind": "GGUF type", "what": f"Stores weights at {row.bits_per_weight:g} bits: {size}. {who}",
        "matters": "A file's size follows from its types: weights times bits, row by row.",
        "facts": (("number in the file", str(row.number)),),
        "see": ("llama-ik-type-on-mainline",) if row.ik_only else (),
    }  # fmt: skip


def _family(row: FamilyRow) -> dict[str, Any]:
    facts = [("config.json", ", ".join(row.hf_architectures)), ("GGUF", ", ".join(row.gguf_architectures))]
    return {"kind": "family of models", "what": f"{row.title}.", "facts": tuple(fact for fact in facts if fact[1])}


def _measurement(row: MeasurementRow) -> dict[str, Any]:
    setting = [row.engine, row.quant, row.parallelism, row.speculation and f"speculation {row.speculation}"]
    figures = {
        "context": row.context_tokens and f"{row.context_tokens:,} tokens",
        "requests at once": row.concurrency and str(row.concurrency),
        "decode": row.decode_tokens_per_second and f"{row.decode_tokens_per_second:g} tok/s, all requests together",
        "prefill": row.prefill_tokens_per_second and f"{row.prefill_tokens_per_second:g} tok/s",
        "cache": row.kv_tokens and f"{row.kv_tokens:,} tokens",
        "first token": row.ttft_seconds and f"{row.ttft_seconds:g} s",
        "note": row.notes,
    }
    count = f"{row.gpu_count}x " if row.gpu_count else ""
    return {
        "title": f"{row.model} on {count}{row.gpu}",
        "what": f"A published result: {'; '.join(part for part in setting if part)}.",
        "facts": (("date", row.date), *((label, figure) for label, figure in figures.items() if figure)),
    }  # fmt: skip


def _pool(row: PoolRow) -> dict[str, Any]:
    made = _by_fields(row)
    return {**made, "what": f"A published cache: {row.tokens:,} tokens of {row.model} on {row.tensor}x {row.gpu}."}


def _by_fields(row: Row) -> dict[str, Any]:
    """Any other kind: its plain fields, and the first that reads like a sentence."""
    known = row.model_dump(mode="json", exclude={"id", "grade", "sources", "owner", "file"})
    plain = {
        name: field_value
        for name, field_value in known.items()
        if isinstance(field_value, str | int | float) and field_value != ""
    }
    what = next((str(plain[name]) for name in ("why", "about", "note", "name") if name in plain), row.id)
    return {
        "what": what,
        "facts": tuple((name, str(field_value)) for name, field_value in plain.items() if str(field_value) != what),
    }


def _said(fact: Fact, unit: str = "") -> str:
    if fact.value is None:
        return f"not known ({fact.note})" if fact.note else "not known"
    number = f"{fact.value:,}" if isinstance(fact.value, int) else f"{fact.value:g}"
    return f"{number} {unit}".rstrip() + (f" ({fact.note})" if fact.note else "")


_MAKERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "advisories": _advisory,
    "constraints": _constraint,
    "failures": _failure,
    "flags": _flag,
    "terms": _term,
    "compat": _compat,
    "images": _image,
    "gpus": _gpu,
    "boxes": _box,
    "links": _link,
    "models": _model,
    "settings": _setting,
    "ggml_types": _ggml_type,
    "families": _family,
    "measurements": _measurement,
    "pools": _pool,
}
