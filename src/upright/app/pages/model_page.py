"""Model -> a table by group, and a picture of where the bytes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.model import Attention, Model, WeightLine

_BAR_COLUMNS = 16
_NAMES = {
    "embedding": "embedding",
    "attention": "attention",
    "indexer": "sparse indexer",
    "dense_ffn": "dense layers",
    "router": "router",
    "routed_experts": "routed experts",
    "shared_experts": "shared experts",
    "norm": "norms",
    "output": "output",
    "tables": "lookup tables",
    "vision": "vision tower",
    "draft": "draft layers",
    "other": "unknown names",
}


def model_page(model: Model, console: Console, layers: bool) -> None:
    from rich.text import Text

    from upright.base.units import format_memory, format_parameters, format_size
    from upright.models.reading.contradictions import contradictions

    weights = f"{format_size(model.tensor_bytes)} ({format_memory(model.tensor_bytes)}) of weights"
    console.print(Text.assemble((model.name, "bold"), f"  {weights}, {format_parameters(model.parameters)} parameters"))
    for sentence in contradictions(model):
        console.print(Text(f"  contradiction: {sentence}", style="red"), soft_wrap=True)
    for label, text in _facts(model):
        console.print(f"  {label:<13}{' ' if len(label) > 12 else ''}{text}", soft_wrap=True, markup=False)
    console.print()
    console.print(_groups(model))
    if layers:
        console.print(_layers(model))
    for entry in model.unknown[:10]:
        text = f"  unknown name: {entry.pattern}  {entry.tensors} tensors, {format_size(entry.bytes)}"
        console.print(text, soft_wrap=True, markup=False)


def _facts(model: Model) -> list[tuple[str, str]]:
    from upright.base.units import format_tokens

    built = model.architecture
    family = f", family {built.family}" if built.family else ", of no known family"
    facts = [("basis", _basis(model)), ("architecture", f"{built.name}{family}, {built.layers} layers")]
    facts += [("attention", _attention(kind)) for kind in built.attention]
    if (experts := built.experts) is not None:
        shared = f" and {experts.shared} shared" if experts.shared else ""
        facts.append(("experts", f"{experts.count} a layer, {experts.active} active{shared}"))
    scaled = f" ({built.rope_scaling.kind})" if built.rope_scaling else ""
    limit = built.context_limit_tokens
    facts.append(("context", f"{format_tokens(limit)} tokens{scaled}" if limit else "the artifact does not say"))
    facts += [("not understood", ", ".join(model.not_understood))] if model.not_understood else []
    facts += [
        ("assumed", f"{each.key} = {each.value} ({each.source})")
        for each in model.assumed
        if each.decides == "cache" and each.value is not None
    ]
    if model.ik_only:
        from upright.engines.tensor_types import engine_loading_fork_types, engine_refusing_fork_types

        message = f"types of {engine_loading_fork_types()}: mainline {engine_refusing_fork_types()} refuses this file"
        facts.append(("engine", message))
    return facts


def _basis(model: Model) -> str:
    if model.basis == "derived":
        return "derived from the configuration's shapes; no weights were read"
    if model.basis != "read":
        return "the catalogue's shapes; nothing of the artifact was read"
    files = f"{len(model.files)} {model.format} files" if len(model.files) > 1 else f"one {model.format} file"
    tensors = sum(file.tensors for file in model.files)
    revision = f" at {model.revision[:12]}" if model.revision else ""
    return f"the headers of {files}{revision}, {tensors:,} tensors"


def _attention(kind: Attention) -> str:
    layers = f"{kind.layers} layers"
    if kind.kind == "mla":
        sparse = f", sparse: {kind.indexer_top_k} tokens" if kind.sparse else ""
        sparse += "" if not kind.sparse or kind.indexer_head_dim else " as an earlier layer selected"
        return f"{layers} of MLA, {kind.kv_lora_rank} + {kind.rope_head_dim} values a token{sparse}"
    if kind.kind == "gqa":
        name = "chunks" if kind.chunked else "window"
        window = f", {name} of {kind.window_tokens}" if kind.window_tokens else ""
        sparse = f", sparse by index keys of {kind.indexer_head_dim}" if kind.indexer_head_dim else ""
        return f"{layers} of GQA, {kind.kv_heads} KV heads of {kind.key_head_dim}{window}{sparse}"
    if kind.kind == "shared":
        return f"{layers} that read another layer's cache"
    if kind.kind == "compressed":
        ratio = f"then 1 entry of {kind.head_dim} for {kind.ratio} tokens" if kind.ratio else "nothing beyond"
        return f"{layers} with a window of {kind.window_tokens}, {ratio}"
    rule = f" ({kind.rule})" if kind.rule else ""
    numbers = f" of {kind.state_elements + (kind.conv_elements or 0):,} numbers" if kind.state_elements else ""
    return f"{layers} of linear attention{rule}, a state of fixed size{numbers}"


def _groups(model: Model) -> object:
    from rich.table import Table
    from rich.text import Text

    from upright.base.units import format_memory

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("group", no_wrap=True)
    table.add_column("stored as")
    for title in ("tensors", "bytes", "bits"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("where the bytes are", no_wrap=True)
    total = max(model.tensor_bytes, 1)
    for group, lines in _by_group(model):
        size_bytes, weights = sum(line.bytes for line in lines), sum(line.parameters for line in lines)
        share = size_bytes / total
        table.add_row(
            _NAMES[group],
            _formats(lines),
            f"{sum(line.tensors for line in lines):,}" if model.basis == "read" else "",
            format_memory(size_bytes),
            f"{8 * size_bytes / weights:.2f}" if weights else "",
            Text.assemble((_bar(share), "cyan"), f" {_percent(share)}"),
        )
    return table


def _layers(model: Model) -> object:
    from rich.table import Table

    from upright.base.units import format_memory

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("layer", "all", "routed experts", "stored as"):
        table.add_column(title, justify="left" if title == "stored as" else "right")
    for layer in sorted({line.layer for line in model.weights if line.layer is not None}):
        lines = [line for line in model.weights if line.layer == layer]
        experts = [line for line in lines if line.group == "routed_experts"]
        routed = format_memory(sum(line.bytes for line in experts)) if experts else ""
        table.add_row(str(layer), format_memory(sum(line.bytes for line in lines)), routed, _formats(experts or lines))
    return table


def _by_group(model: Model) -> list[tuple[str, list[WeightLine]]]:
    groups: dict[str, list[WeightLine]] = {}
    for line in model.weights:
        groups.setdefault(line.group, []).append(line)
    return sorted(groups.items(), key=lambda item: -sum(line.bytes for line in item[1]))


def _formats(lines: list[WeightLine]) -> str:
    """The largest first; what is less than a hundredth is left out."""
    sums: dict[str, int] = {}
    for line in lines:
        sums[line.dtype] = sums.get(line.dtype, 0) + line.bytes
    total = max(sum(sums.values()), 1)
    return ", ".join(name for name, size in sorted(sums.items(), key=lambda item: -item[1]) if size / total >= 0.01)


def _bar(share: float) -> str:
    eighths = round(share * _BAR_COLUMNS * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + " ▏▎▍▌▋▊▉"[rest]).strip().ljust(1, "▏")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"
