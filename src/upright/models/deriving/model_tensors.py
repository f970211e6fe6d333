"""All tensors of a model: its layers, its draft layers, embeddings and output."""

from __future__ import annotations

from collections.abc import Iterator

from upright.facts.records.model import CompressedAttention, LinearAttention, MlaAttention
from upright.models.deriving.feedforward import FeedForward
from upright.models.deriving.layer_tensors import (
    attention,
    attention_residuals,
    feedforward_tensors,
    hyper_connections,
    norms,
    outer_tensors,
)
from upright.models.deriving.layers import Layer, ParsedConfiguration
from upright.models.deriving.tensor_builder import DerivedTensor, Sizes, TensorBuilder


def text_tensors(configuration: ParsedConfiguration) -> tuple[DerivedTensor, ...]:
    """Every tensor of the text model, its draft layers last."""
    sizes = sizes_of(configuration)
    tensors = [*outer_tensors(sizes, configuration.architecture.vocabulary_size), *_around(configuration, sizes)]
    for index, layer in enumerate(configuration.layers):
        tensors += _layer(layer, index, sizes)
    return (*tensors, *_drafts(configuration, sizes))


def sizes_of(configuration: ParsedConfiguration) -> Sizes:
    traits = configuration.row.weights if configuration.row else {}
    keys, tied = configuration.keys, configuration.tied
    if tied is None:
        tied = keys.flag("tie_word_embeddings", bool(traits.get("tied", False)))
    return Sizes(keys, traits, configuration.architecture.hidden_size, tied)


def _layer(layer: Layer, index: int, sizes: Sizes) -> list[DerivedTensor]:
    shelf = TensorBuilder(index)
    for kind in layer.attention:
        attention(shelf, kind, sizes)
    feedforward_tensors(shelf, layer.feedforward, sizes)
    norms(shelf, sizes, _norm_count(layer, sizes))
    if sizes.trait("hyper"):
        hyper_connections(shelf, sizes)
    if sizes.trait("attention_residuals") and sizes.keys.integer("attn_res_block_size"):
        attention_residuals(shelf, sizes)
    _per_layer_inputs(shelf, sizes)
    return shelf.tensors


def _norm_count(layer: Layer, sizes: Sizes) -> int:
    count = int(sizes.traits.get("norms", 2))
    if layer.feedforward.mixture and "moe_norms" in sizes.traits:
        count = int(sizes.traits["moe_norms"])
    return count


def _per_layer_inputs(shelf: TensorBuilder, sizes: Sizes) -> None:
    """Gemma's per-layer embeddings: a gate into them and a projection back, a norm, and one scalar."""
    if not sizes.trait("per_layer_inputs"):
        return
    if sizes.trait("altup"):
        _altup(shelf, sizes)
    else:
        shelf.add("norm", "layer_scalar", 1)
    width = sizes.keys.integer("hidden_size_per_layer_input") or 0
    if width:
        shelf.linear("norm", "per_layer_input_gate", width, sizes.hidden)
        shelf.linear("norm", "per_layer_projection", sizes.hidden, width)
        shelf.add("norm", "post_per_layer_input_norm.weight", sizes.hidden)


def _altup(shelf: TensorBuilder, sizes: Sizes) -> None:
    """Gemma 3n: several streams that predict and correct one another, and a low-rank bypass."""
    streams, rank = sizes.keys.integer("altup_num_inputs") or 4, sizes.keys.integer("laurel_rank") or 64
    for name in ("altup.correct_output_scale", "altup.router_norm.weight", "laurel.post_laurel_norm.weight"):
        shelf.add("norm", name, sizes.hidden)
    shelf.linear("norm", "altup.correction_coefs", streams, streams)
    shelf.linear("norm", "altup.prediction_coefs", streams * streams, streams)
    shelf.linear("norm", "altup.modality_router", streams, sizes.hidden)
    shelf.linear("norm", "laurel.linear_left", rank, sizes.hidden)
    shelf.linear("norm", "laurel.linear_right", sizes.hidden, rank)


def _around(configuration: ParsedConfiguration, sizes: Sizes) -> Iterator[DerivedTensor]:
    keys, layers = sizes.keys, len(configuration.layers)
    if sizes.trait("hyper_head"):
        streams = keys.integer("hc_mult") or 1
        yield DerivedTensor("norm", None, "hc_head.hc_fn", (streams, streams * sizes.hidden))
        yield DerivedTensor("norm", None, "hc_head.hc_base", (streams,))
        yield DerivedTensor("norm", None, "hc_head.hc_scale", (1,))
    if sizes.trait("per_layer_inputs") and (width := keys.integer("hidden_size_per_layer_input")):
        rows = keys.integer("vocab_size_per_layer_input") or configuration.architecture.vocabulary_size
        yield DerivedTensor("tables", None, "embed_tokens_per_layer.weight", (rows, layers * width))
        yield DerivedTensor("norm", None, "per_layer_model_projection.weight", (layers * width, sizes.hidden))
        yield DerivedTensor("norm", None, "per_layer_projection_norm.weight", (width,))
    if sizes.trait("attention_residuals") and keys.integer("attn_res_block_size"):
        yield DerivedTensor("norm", None, "output_attn_res_norm.weight", (sizes.hidden,))
        yield DerivedTensor("norm", None, "output_attn_res_proj.weight", (1, sizes.hidden))
    if sizes.trait("altup"):
        streams = (keys.integer("altup_num_inputs") or 4) - 1
        yield DerivedTensor("norm", None, "altup_projections.weight", (sizes.hidden, sizes.hidden), 2 * streams)
    if sizes.trait("streams"):
        yield DerivedTensor("embedding", None, "embed_norm.weight", (sizes.hidden,))
    if hashed := keys.integer("num_hash_layers") if sizes.trait("hashed") else 0:
        active = configuration.architecture.experts.active if configuration.architecture.experts else 0
        rows = configuration.architecture.vocabulary_size
        for index in range(min(hashed, layers)):
            yield DerivedTensor("router", index, "mlp.gate.tid2eid", (rows, active))
    if parts := keys.integer("emb_split_num") if "ngram_vocab_size_ratio" in keys.values else 0:
        count = parts * ((keys.integer("emb_neighbor_num") or 1) - 1)
        if count > 0:
            width = sizes.hidden // count
            yield DerivedTensor("norm", None, "ngram_embeddings.post_projs.weight", (sizes.hidden, width), count)
    for table in configuration.architecture.tables:
        yield DerivedTensor("tables", None, f"{table.name.lower().replace(' ', '_')}.weight", (table.rows, table.width))


def _drafts(configuration: ParsedConfiguration, sizes: Sizes) -> Iterator[DerivedTensor]:
    """Multi-token prediction: a layer like the last, a projection of two vectors into one, and norms."""
    count = configuration.architecture.draft_layers
    if not count or not configuration.layers or sizes.traits.get("drafts") is False:
        return
    last = _draft_model(configuration, sizes)
    for index in range(count):
        number, hidden = len(configuration.layers) + index, sizes.hidden
        for tensor in _layer(last, number, sizes):
            yield tensor._replace(group="draft", name=tensor.name)
        yield DerivedTensor("draft", number, "eh_proj.weight", (hidden, 2 * hidden))
        for name in ("enorm", "hnorm", "shared_head.norm"):
            yield DerivedTensor("draft", number, f"{name}.weight", (hidden,))
        if sizes.trait("draft_embeds"):  # copies of the model's own, as DeepSeek V3 and GLM store them
            rows = configuration.architecture.vocabulary_size
            yield DerivedTensor("draft", number, "embed_tokens.weight", (rows, hidden))
            yield DerivedTensor("draft", number, "shared_head.head.weight", (rows, hidden))


def _draft_model(configuration: ParsedConfiguration, sizes: Sizes) -> Layer:
    """The last layer that attends to everything, with the last mixture; some families draft with small dense layers."""
    layers = configuration.layers
    if sizes.trait("dense_drafts"):
        width = next((layer.feedforward.dense_width for layer in layers if layer.feedforward.dense_width), None)
        slides = [layer for layer in layers if sizes.trait("window_drafts") and _recurrent_or_window(layer)]
        like = (slides or list(layers))[-1]
        return type(like)(kind=like.kind, attention=like.attention, feedforward=FeedForward(dense_width=width))
    whole = [layer for layer in layers if layer.attention and not _recurrent_or_window(layer)]
    last = (whole or list(layers))[-1]
    mixed = next((layer.feedforward for layer in reversed(layers) if layer.feedforward.mixture), last.feedforward)
    parts = last.attention
    if parts and isinstance(parts[0], MlaAttention) and parts[0].sparse and not parts[0].indexer_head_dim:
        own = next((layer.attention for layer in layers if _owns_index(layer)), parts)
        parts = own
    feedforward = mixed if mixed.mixture else FeedForward(dense_width=last.feedforward.dense_width)
    return type(last)(kind=last.kind, attention=parts, feedforward=feedforward)


def _owns_index(layer: Layer) -> bool:
    return any(isinstance(kind, MlaAttention) and kind.indexer_head_dim for kind in layer.attention)


def _recurrent_or_window(layer: Layer) -> bool:
    return any(
        isinstance(kind, LinearAttention)
        or (not isinstance(kind, CompressedAttention) and getattr(kind, "window_tokens", None))
        for kind in layer.attention
    )
