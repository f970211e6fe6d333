"""A llama-server by its flags whose tokens come by the clock: speculation makes it faster, slower, wrong or dead.

    speculating.py --port N [--spec-type ngram-simple | draft-simple | draft-eagle3] [--spec-synth-len N]

Without a guess a token comes every 12 ms; n-grams make that 4, a draft 18; the head of an EAGLE falls at the start;
synthetic acceptance answers nonsense, and so does a draft named damaging.gguf. Its counters are those of b11669.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise

from upright.proof.benchmark.scheduled_server import Connection, Schedule, ServerConnections

_ITL_SECONDS = {None: 0.012, "ngram-simple": 0.004, "draft-simple": 0.018}
_HELD = {"ngram-simple": (0.9, 0.8, 0.7, 0.6, 0.5), "draft-simple": (0.03, 0.001, 0.0)}


class Guessing(ServerConnections):
    """Counts its guesses beside its tokens."""

    def __init__(self, kind: str | None, wrong: bool) -> None:
        super().__init__(Schedule(ttft_seconds=0.005, itl_seconds=_ITL_SECONDS[kind]))
        self.kind, self.wrong = kind, wrong

    def metrics(self) -> str:
        held = _HELD.get(self.kind or "", ())
        drafts = 0 if self.kind is None else self.record.tokens
        name = "llamacpp:spec_decode_num"
        rows = [f"{name}_drafts_total {drafts}", f"{name}_draft_tokens_total {drafts * len(held)}"]
        rows.append(f"{name}_accepted_tokens_total {round(drafts * sum(held))}")
        at = f"{name}_accepted_tokens_per_pos_total"
        rows += [f'{at}{{position="{place}"}} {round(drafts * share)}' for place, share in enumerate(held)]
        return "\n".join(rows) + "\n"


class Answering(Connection):
    """Whole answers too: the capital of France is what everybody asks."""

    server: Guessing

    def answer(self, method: str, path: str, body: bytes, read_at: float) -> None:
        asked = json.loads(body) if body else {}
        if path.startswith("/v1/chat") and not asked.get("stream") and asked.get("max_tokens", 0) > 1:
            text = "sglurb" if self.server.wrong else "The capital of France is Paris."
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": len(text.split()) + 1}
            self.whole(json.dumps({"choices": [choice], "usage": usage}).encode())
        else:
            super().answer(method, path, body, read_at)


async def main(words: list[str]) -> None:
    given = dict(pairwise(words))
    kind = given.get("--spec-type")
    print("llama_kv_cache:        CPU KV buffer size =     3.00 MiB", flush=True)
    if kind == "draft-eagle3":
        print("error: failed to create speculative decoding context", flush=True)
        sys.exit(1)
    if kind == "draft-simple":
        print("llama_kv_cache:        CPU KV buffer size =     1.00 MiB", flush=True)
    wrong = "--spec-synth-len" in given or "damaging" in given.get("--spec-draft-model", "")
    server = Guessing(kind, wrong)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Answering(server), "127.0.0.1", int(given["--port"]))
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
