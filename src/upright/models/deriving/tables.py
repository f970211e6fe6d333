"""Keys -> lookup tables beside the layers: Engram (DeepSeek V4.1) and n-gram embeddings (PLE, LongCat).

A token looks up a few rows, so system RAM can hold them; engines keep them there if asked.
"""

from __future__ import annotations

from upright.facts.records.model import Table
from upright.models.deriving.keys import ConfigKeys

_ENGRAM_BLOCK = 32
_MOST_VOCABULARIES = 10_000


def tables(keys: ConfigKeys) -> tuple[Table, ...]:
    return (*_engram(keys), *_ngrams(keys), *_neighbours(keys))


def _engram(keys: ConfigKeys) -> tuple[Table, ...]:
    """Rows of fp8 with a power-of-two scale for each 32 values (vLLM 0.32.0 models/deepseek_v41/common/engram.py)."""
    if "engram_num_embeddings" not in keys.values:
        return ()
    rows, width = keys.numbers("engram_num_embeddings"), keys.integer("engram_head_dim")
    orders, heads = (keys.integer("engram_max_ngram_size") or 2) - 1, keys.integer("engram_n_heads") or 1
    keys.ignore(*(name for name in keys.values if name.startswith("engram_")))
    if not rows:
        return ()
    if not width:
        keys.refuse("engram_num_embeddings", "no width of the table's rows")
        return ()
    return (
        Table(
            name="Engram",
            rows=sum(rows),
            width=width,
            row_bytes=width + -(-width // _ENGRAM_BLOCK),
            rows_per_token=len(rows) * orders * heads,
        ),
    )


def _ngrams(keys: ConfigKeys) -> tuple[Table, ...]:
    """Qwen's PLE: heads for each order of n-gram, each of about `ngram_vocab_size_base` rows, in bf16."""
    base = keys.integer("ngram_vocab_size_base") if "ngram_vocab_size_base" in keys.values else None
    if not base:
        return ()
    size, heads = keys.integer("ngram_size") or 0, keys.integer("heads_per_ngram") or 0
    width, places = keys.integer("ple_embed_dim") or keys.required("hidden_size"), keys.numbers("ple_layer_ids")
    keys.ignore("make_ngram_vocab_size_divisible_by", "split_ngram_parts")
    lookups = (size - 1) * heads
    if lookups < 1 or not places:
        return ()
    return (
        Table(
            name="n-gram embeddings",
            rows=lookups * base * len(places),
            width=width // lookups,
            row_bytes=2 * (width // lookups),
            rows_per_token=lookups * len(places),
            exact=False,
        ),
    )


def _neighbours(keys: ConfigKeys) -> tuple[Table, ...]:
    """LongCat: tables for the last few tokens, `emb_split_num` for each length, each of about as many rows as so many
    vocabularies (vLLM 0.32.0 models/longcat_flash_ngram.py:63-92)."""
    ratio = keys.get("ngram_vocab_size_ratio") if "ngram_vocab_size_ratio" in keys.values else None
    if not ratio:
        return ()
    lookups = (keys.integer("emb_split_num") or 0) * ((keys.integer("emb_neighbor_num") or 1) - 1)
    if (
        not isinstance(ratio, int | float)
        or isinstance(ratio, bool)
        or not 0 < ratio < _MOST_VOCABULARIES
        or lookups < 1
    ):
        keys.refuse("ngram_vocab_size_ratio", "no size of the tables")
        return ()
    first, width = int(ratio * keys.required("vocab_size")), keys.required("hidden_size") // lookups
    return (
        Table(
            name="n-gram embeddings",
            rows=sum(first + 2 * index + 1 for index in range(lookups)),
            width=width,
            row_bytes=2 * width,
            rows_per_token=lookups,
        ),
    )
