"""Runs in the environment of scripts/get-ik: MODEL CACHE-TYPE PROMPT -> how it goes on, as JSON after ANSWER."""

import json
import sys

from ik_llama_cpp import _internals, llama

TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30, "q6_0": 133
}  # fmt: skip
"""As the fork's ggml.h numbers them."""


def main() -> None:
    model, cache_type, prompt = sys.argv[1:]
    defaults = _internals.C.llama_context_default_params

    def parameters() -> object:
        chosen = defaults()
        chosen.type_k = chosen.type_v = TYPES[cache_type]
        return chosen

    _internals.C.llama_context_default_params = parameters
    llama._cpu_has_avx_vnni = lambda: True  # the bindings would turn flash attention off, and the server has it on
    engine = llama.IkLlama(model, n_ctx=512, n_threads=1, flash_attn=True, verbose=False, n_seq_max=1)
    tokens = list(engine.generate(engine.tokenize(prompt, special=True), max_tokens=12, temperature=0))
    print(f"\nANSWER {json.dumps(engine.detokenize(tokens))}", flush=True)


main()
