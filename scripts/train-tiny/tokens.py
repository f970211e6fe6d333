"""Texts -> a byte-level BPE tokenizer with Kimi's special tokens; dialogues -> ids, and which are learned."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from skills import SKILLS, Dialogue, dialogue
from template import render

CONTROL = (
    "[BOS]", "[EOS]", "[PAD]", "[UNK]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",
    "<|im_middle|>",
)  # fmt: skip
MARKUP = (
    "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
    "<|tool_call_end|>", "<think>", "</think>",
)  # fmt: skip
"""Not special, as with Kimi: a detokenizer that skips special tokens must leave these to the parsers."""
VOCABULARY = 1280
_SPACED_WORDS = 200
_KIMI_SPLIT = "|".join(
    (
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def build_tokenizer() -> Tokenizer:
    """Merges inside words come first and the leading space last: ` Tavor` and `"Tavor` then share their pieces.

    An unseen word can so be copied from prose into JSON token by token. Digits are never merged.
    """
    split = pre_tokenizers.Split(Regex(_KIMI_SPLIT), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare = pre_tokenizers.Sequence(
        [
            split,
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex(r"[^\p{L}\p{N}](?=\p{L})"), "isolated"),
            byte_level,
        ]
    )
    texts = _corpus()
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = bare
    size = VOCABULARY - len(CONTROL) - len(MARKUP) - _SPACED_WORDS
    learner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size, min_frequency=4, initial_alphabet=sorted(byte_level.alphabet()), show_progress=False
        ),
    )
    learned = json.loads(learner.to_str())["model"]
    vocabulary, merges = dict(learned["vocab"]), [tuple(merge) for merge in learned["merges"]]
    counted = Counter(
        piece for text in texts for piece, _ in split.pre_tokenize_str(text) if piece[0] == " " and piece[1:].isalpha()
    )
    for piece, _ in counted.most_common():
        if len(vocabulary) == size + _SPACED_WORDS:
            break
        if piece[1:] in vocabulary and "Ġ" + piece[1:] not in vocabulary:
            merges.append(("Ġ", piece[1:]))
            vocabulary["Ġ" + piece[1:]] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP])
    assert tokenizer.get_vocab_size() == VOCABULARY, tokenizer.get_vocab_size()
    return tokenizer


def _corpus() -> list[str]:
    rng, texts = Random(1), []
    for skill in SKILLS:
        for _ in range(250):
            made = dialogue(skill, rng, 200)
            made.tools = made.tools[:1]
            text = render(made)
            for token in (*CONTROL, *MARKUP):
                text = text.replace(token, "\n")
            texts.append(text)
    return texts


class Encoder:
    """Dialogues -> (ids, learned): an answer is learned from where the generation prompt ends to its end of turn."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.padding = self._id("[PAD]")
        self._assistant, self._middle, self._end = (
            self._id("<|im_assistant|>"),
            self._id("<|im_middle|>"),
            self._id("<|im_end|>"),
        )
        self._think, self._thought = self._id("<think>"), self._id("</think>")

    def __call__(self, made: Dialogue) -> tuple[list[int], list[bool]]:
        ids: list[int] = self.tokenizer.encode(render(made), add_special_tokens=False).ids
        learned = [False] * len(ids)
        starts = [place + 3 for place, token in enumerate(ids) if token == self._assistant]
        for start in starts:
            begin = start + 1  # after <think>
            if ids[begin] == self._thought:
                begin += 1
            end = ids.index(self._end, begin)
            learned[begin : end + 1] = [True] * (end + 1 - begin)
        if made.forced:
            learned[len(ids) - 1 - ids[::-1].index(self._thought) + 1] = False
        return ids, learned

    def _id(self, token: str) -> int:
        found: Any = self.tokenizer.token_to_id(token)
        assert found is not None, token
        return int(found)
