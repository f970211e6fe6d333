#!/usr/bin/env bash
# Serves Kimi-K2.6 with vllm 0.32.0.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: The model's own code is run and no revision is pinned: fetch a revision that you trust (upright fetch OWNER/NAME@REVISION) and serve that.
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-moonshotai/Kimi-K2.6}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-Kimi-K2.6}
PORT=${PORT:-8000}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-65536}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.92}
ENABLE_EAGLE3=${ENABLE_EAGLE3:-0}  # 1: speculative decoding with a draft model: prove the base first
EAGLE3_MODEL=${EAGLE3_MODEL:-lightseekorg/kimi-k2.6-eagle3-mla}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line

if [ ! -s "$KEY_FILE" ]; then
  mkdir -p "$(dirname "$KEY_FILE")"
  (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$KEY_FILE")
  echo "a new API key is in $KEY_FILE" >&2
fi
VLLM_API_KEY=$(<"$KEY_FILE")
export VLLM_API_KEY  # not on the command line, where `ps` would show it
# no telemetry [vLLM docs, usage_stats]
export VLLM_NO_USAGE_STATS=1
# the farthest pair of GPUs is SYS apart: peers talk directly over PCIe, not through host memory [NCCL environment variables, NCCL_P2P_LEVEL: levels are words; integers differ between its own documents]
export NCCL_P2P_LEVEL=SYS

arguments=(
  # the artifact that was planned, by the catalogue's figures
  serve "$MODEL_PATH"
  # the name that clients use
  --served-model-name "$SERVED_MODEL_NAME"
  # bind loopback unless told otherwise
  --host 127.0.0.1
  # port of the OpenAI-compatible API
  --port "$PORT"
  # every layer is divided over 8 GPUs
  --tensor-parallel-size 8
  # more than two GPUs on PCIe: NCCL does it; the custom kernel needs NVLink or true BAR1 peer access and was 4 times slower without [local-inference-lab/rtx6kpro kimi-k26-prometheus-benchmark-refresh-2026-04-25.md; vllm custom_all_reduce.py]
  --disable-custom-all-reduce
  # the context that was planned; longer is also slower at short prompts [local-inference-lab/rtx6kpro models/kimi-k26-v4.md]
  --max-model-len "$MAX_MODEL_LEN"
  # requests at once: 1 asked for, 2 fit at full context, and an agent's short side calls
  --max-num-seqs 4
  # tokens computed at once: what the plan's scratch memory was counted with
  --max-num-batched-tokens 8192
  # the share of each GPU that was planned: 157,952 tokens of cache are sure to fit
  --gpu-memory-utilization "$GPU_MEMORY_UTILIZATION"
  # the cache type that was planned: 70,272 bytes a token; said aloud, since `auto` follows the checkpoint
  --kv-cache-dtype bfloat16
  # The only dense MLA backend that accepts SM 12.x. With a bf16 cache its kernel needs 63,488 of the 101,376 bytes of shared memory. [catalogue, compat/vllm-sm12-dense-mla: vLLM wheels 0.28.0 to 0.32.0]
  --attention-backend TRITON_MLA
  # clients may let the model choose a tool [catalogue, models/kimi-k2.6]
  --enable-auto-tool-choice
  # reads this model's tool calls: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --tool-call-parser kimi_k2
  # separates thinking from the answer: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --reasoning-parser kimi_k2
  # the repository brings its own configuration and tokenizer; pin its revision, see the notes [vllm-project/recipes models/moonshotai]
  --trust-remote-code
  # text first: the vision tower and its memory are left out until text is proved [vllm-project/recipes models/moonshotai/Kimi-K2.6.yaml]
  --language-model-only
  # an agent sends the same long prefix with every call; off only pays for prompts that share nothing [vLLM docs, automatic prefix caching]
  --enable-prefix-caching
  # usage tells how much of a prompt came from the cache, which proofs and benchmarks read [vLLM 0.32.0, cli_args.py]
  --enable-prompt-tokens-details
)
if [ "$ENABLE_EAGLE3" = 1 ]; then
  arguments+=(
    # eagle3 guesses 3 tokens ahead: a latency feature, judged on your load [Acceptance about 0.65, 0.40, 0.25 at positions 1 to 3.]
    --speculative-config '{"method":"eagle3","num_speculative_tokens":3,"model":"'"$EAGLE3_MODEL"'"}'
    # sequences x (guesses + 1): larger batches would leave the CUDA graphs [local-inference-lab/rtx6kpro models/kimi-k26-v2.md]
    --max-cudagraph-capture-size 16
  )
fi

exec vllm "${arguments[@]}"
