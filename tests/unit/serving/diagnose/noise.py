"""Logs as busy engines write them: the shapes of real lines, with other numbers, from many processes at once."""

from __future__ import annotations

import random
from collections.abc import Iterator

COLOUR, PLAIN = "\x1b[1;36m", "\x1b[0;0m"


def vllm(count: int, seed: int = 1) -> Iterator[str]:
    dice = random.Random(seed)
    for number in range(count):
        stamp = f"05-15 03:{number // 60 % 60:02}:{number % 60:02}"
        rank = dice.randrange(8)
        yield dice.choice(
            (
                f"{COLOUR}(APIServer pid=1){PLAIN} INFO {stamp} [loggers.py:248] Engine 000: Avg prompt throughput: "
                f"{dice.random() * 900:.1f} tokens/s, Avg generation throughput: {dice.random() * 90:.1f} tokens/s, "
                f"Running: {rank} reqs, Waiting: 0 reqs, GPU KV cache usage: {dice.random() * 90:.1f}%",
                f'(APIServer pid=1) INFO:     127.0.0.1:{dice.randrange(9999)} - "POST /v1/completions HTTP/1.1" 200',
                f"{COLOUR}(Worker_TP{rank} pid={300 + rank}){PLAIN} INFO {stamp} [runner.py:2602] Starting to load",
                f"(EngineCore_DP0 pid=271) INFO {stamp} [utils.py:864] GPU KV cache size: 1,723,{rank}84 tokens",
                f"(Worker_TP{rank} pid={300 + rank}) INFO {stamp} [pynccl.py:113] vLLM is using nccl==2.30.3",
                f"[rank{rank}]: W{stamp} torch/distributed/run.py:766] Setting OMP_NUM_THREADS",
                f"node0:234{rank}:236{rank} [{rank}] NCCL INFO Channel 0{rank}/24 : 0 1 2 3 4 5 6 7",
                f"\rLoading safetensors checkpoint shards: {rank * 12}% Completed | {rank}/8 [00:12<00:09]"
                f"\rLoading safetensors checkpoint shards: {rank * 12 + 1}% Completed | {rank}/8 [00:13<00:08]",
            )
        )


def sglang(count: int, seed: int = 1) -> Iterator[str]:
    dice = random.Random(seed)
    for number in range(count):
        rank = dice.randrange(8)
        stamp = f"[2026-06-28 13:{number // 60 % 60:02}:{number % 60:02} TP{rank}]"
        yield dice.choice(
            (
                f"{stamp} Decode batch. #running-req: {rank}, #token: {number}, token usage: 0.01, cuda graph: True, "
                f"gen throughput (token/s): {dice.random() * 100:.2f}, #queue-req: 0",
                f"{stamp} Prefill batch. #new-seq: 1, #new-token: {number}, #cached-token: 64",
                f"{stamp} Memory pool end. avail mem={dice.random() * 20:.2f} GB",
                f'[2026-06-28 13:34:12] INFO:     127.0.0.1:{number} - "GET /health HTTP/1.1" 200 OK',
            )
        )


def llama(count: int, seed: int = 1) -> Iterator[str]:
    dice = random.Random(seed)
    for number in range(count):
        stamp = f"{number // 60}.{number % 60:02}.{dice.randrange(1000):03}.{dice.randrange(1000):03}"
        yield dice.choice(
            (
                f"{stamp} I slot print_timing: id  0 | task {number} | prompt eval time = {number / 7:.2f} ms / 12",
                f"{stamp} I srv  update_slots: all slots are idle",
                f"{stamp} I srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
                f"{stamp} W llama_context: n_ctx_seq ({number}) < n_ctx_train (262144) -- not all of it is used",
                f"{stamp} I llama_model_loader: - kv {number % 44}: deepseek2.block_count u32 = 61",
            )
        )


def mlx(count: int, seed: int = 1) -> Iterator[str]:
    dice = random.Random(seed)
    for number in range(count):
        stamp = f"2026-11-19 13:{number // 60 % 60:02}:{number % 60:02},{dice.randrange(1000):03} - INFO - "
        yield dice.choice(
            (
                f"{stamp}Prompt Cache: {dice.randrange(10)} sequences, {dice.random() * 9:.2f} GB",
                f"{stamp}- assistant: {dice.randrange(4)} sequences, {dice.random():.2f} GB",
                f"{stamp}Prompt processing progress: {number % 2048}/2048",
                '127.0.0.1 - - [19/Nov/2026 13:00:00] "POST /v1/chat/completions HTTP/1.1" 200 -',
            )
        )


NOISE = {
    "mlx": mlx,
    "vllm": vllm,
    "sglang": sglang,
    "ktransformers": sglang,
    "llama.cpp": llama,
    "ik_llama.cpp": llama,
    "any": vllm,
}
