#!/usr/bin/env bash
# Serves kimi-k2.6-IQ3_K with ik_llama.cpp 8337e4cd, in a container of podman.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: response_format with a JSON schema is silently ignored with the Kimi template: prove structured output.
# Note: Left out on purpose: -fmoe (gone, fusing is the default), -ger (acts on BailingMoE only), --warmup-batch (used by the bench tools only), -muge (slower on Kimi K2.6), --special (shows control tokens).
# Note: CVE-2026-27940 (high): a GGUF file overflows the heap when its header is read. llama.cpp b8146 or newer; with ik_llama.cpp only files whose sha256 a maker that you trust has published.
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-/model/Kimi-K2.6-IQ3_K-00001-of-00012.gguf}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-kimi-k2.6-IQ3_K}
PORT=${PORT:-8000}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-131072}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line
IMAGE=${IMAGE:?name an image that holds ik_llama.cpp, by a tag that stays or by digest}
MODEL_FOLDER=${MODEL_FOLDER:-/models}  # on the host; mounted as /model
CACHE_FOLDER=${CACHE_FOLDER:-$HOME/.cache/upright/engines}

if [ ! -s "$KEY_FILE" ]; then
  mkdir -p "$(dirname "$KEY_FILE")"
  (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$KEY_FILE")
  echo "a new API key is in $KEY_FILE" >&2
fi
mkdir -p "$CACHE_FOLDER"

options=(
  --rm --init
  # every GPU, by its CDI name (nvidia-ctk cdi generate)
  --device nvidia.com/gpu=all
  # clients on this machine only; put a proxy with TLS before it for others
  --publish "127.0.0.1:$PORT:$PORT"
  # ranks share memory through it; --ipc=host would share the whole machine's
  --shm-size 32g --ulimit memlock=-1
  # nothing that an engine does not need
  --cap-drop ALL --security-opt no-new-privileges --read-only --tmpfs /tmp:exec
  # the model, read-only
  --volume "$MODEL_FOLDER:/model:ro,z"
  # compiled kernels and graphs, kept between starts
  --volume "$CACHE_FOLDER:/cache:z"
  # the key as a file: it is in no listing and in no `inspect`
  --volume "$KEY_FILE:/run/secrets/upright-key:ro,Z"
  # a proxy's address may hold a password, and the engine fetches nothing
  --http-proxy=false
  --entrypoint llama-server
  # the root is read-only: caches go to their own folder
  --env HOME=/cache
  # PyTorch names its cache after the user and asks for one
  --env USER=upright
)
arguments=(
  # the artifact that was planned, by the catalogue's figures
  --model "$MODEL_PATH"
  # the name that clients use
  --alias "$SERVED_MODEL_NAME"
  # inside the container; the port is published on loopback alone
  --host 0.0.0.0
  # port of the OpenAI-compatible API
  --port "$PORT"
  # the key stays out of process listings; /health alone needs none [llama.cpp tools/server/README.md]
  --api-key-file /run/secrets/upright-key
  # 131,072 tokens for each of 1 user; the server divides it by --parallel
  --ctx-size "$MAX_MODEL_LEN"
  # requests served at once, each with a slot of its own context
  --parallel 1
  # the cache type that the plan counted [the plan]
  --cache-type-k f16
  # compressed cache with the faster prompt path: the best of both modes; mainline has no such choice [ik_llama.cpp at 8337e4cd, common/common.cpp; Running Kimi-K2.6 Locally (2026-04)]
  -mla 3
  # MiB for attention's intermediate products while prompts are read [ik_llama.cpp at 8337e4cd, common/common.cpp; Running Kimi-K2.6 Locally (2026-04)]
  -amb 512
  # every layer's attention on the GPUs; where the experts are is named below
  --n-gpu-layers 999
  # takes a value in both forks now; bare it eats the next word
  --flash-attn on
  # tokens of a prompt handed over at once
  --batch-size 8192
  # tokens computed at once, as the plan counted them; larger is faster at prefill [Running Kimi-K2.6 Locally (2026-04)]
  --ubatch-size 4096
  # routed experts of 9 layers on gpu0: what the plan found room for [Running Kimi-K2.6 Locally (2026-04)]
  --override-tensor 'blk\.([1-9])\.ffn_.*_exps=CUDA0'
  # routed experts of 9 layers on gpu1: what the plan found room for [Running Kimi-K2.6 Locally (2026-04)]
  --override-tensor 'blk\.(5[2-9]|60)\.ffn_.*_exps=CUDA1'
  # the other routed experts, offloaded to CPU; the first pattern that matches wins: this one is last [Running Kimi-K2.6 Locally (2026-04)]
  --override-tensor exps=CPU
  # decode is bound by memory: a thread a core, one core left for the GPUs' driver [Running Kimi-K2.6 Locally (2026-04)]
  --threads 15
  # prompts are bound by arithmetic: every hardware thread [Running Kimi-K2.6 Locally (2026-04)]
  --threads-batch 32
  # the model's own chat template renders tools; off by default in ik_llama.cpp and older builds [llama.cpp tools/server/README.md]
  --jinja
  # offloaded experts decode below 30 tok/s: non-thinking mode; a request can still ask for thinking [Running Kimi-K2.6 Locally (2026-04)]
  --chat-template-kwargs '{"thinking":false}'
  # the maker's setting for non-thinking mode
  --temp 0.6
  # the maker's setting for non-thinking mode
  --top-p 0.95
  # counters for proofs and benchmarks [llama.cpp tools/server/README.md]
  --metrics
)

exec podman run "${options[@]}" "$IMAGE" "${arguments[@]}"
