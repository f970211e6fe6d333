#!/usr/bin/env bash
# Serves Kimi-K2.6 with sglang 0.5.23.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: The model's own code is run and no revision is pinned: fetch a revision that you trust (upright fetch OWNER/NAME@REVISION) and serve that.
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-moonshotai/Kimi-K2.6}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-Kimi-K2.6}
PORT=${PORT:-30000}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-65536}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.848}
ENABLE_EAGLE3=${ENABLE_EAGLE3:-0}  # 1: speculative decoding with a draft model: prove the base first
EAGLE3_MODEL=${EAGLE3_MODEL:-lightseekorg/kimi-k2.6-eagle3-mla}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line

if [ ! -s "$KEY_FILE" ]; then
  mkdir -p "$(dirname "$KEY_FILE")"
  (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$KEY_FILE")
  echo "a new API key is in $KEY_FILE" >&2
fi
# The key in a file that only you can read: on the command line `ps` would show it.
KEY_CONFIG="$KEY_FILE.yaml"
(umask 077 && printf 'api-key: %s\n' "$(<"$KEY_FILE")" >"$KEY_CONFIG")
# the farthest pair of GPUs is SYS apart: peers talk directly over PCIe, not through host memory [NCCL environment variables, NCCL_P2P_LEVEL: levels are words; integers differ between its own documents]
export NCCL_P2P_LEVEL=SYS

arguments=(
  # SGLang's server
  -m sglang.launch_server
  # the artifact that was planned, by the catalogue's figures
  --model-path "$MODEL_PATH"
  # the name that clients use
  --served-model-name "$SERVED_MODEL_NAME"
  # bind loopback unless told otherwise
  --host 127.0.0.1
  # port of the OpenAI-compatible API
  --port "$PORT"
  # the API key from a file of its own: on the command line everybody on the machine could read it [sglang/srt/server_args_config_parser.py]
  --config "$KEY_CONFIG"
  # every layer is divided over 8 GPUs
  --tp-size 8
  # more than two GPUs on PCIe: NCCL does it; the custom kernel needs NVLink or true BAR1 peer access and was 4 times slower without [local-inference-lab/rtx6kpro kimi-k26-prometheus-benchmark-refresh-2026-04-25.md; vllm custom_all_reduce.py]
  --disable-custom-all-reduce
  # the context that was planned
  --context-length "$MAX_MODEL_LEN"
  # requests at once: 1 asked for, 1 fit at full context, and an agent's short side calls
  --max-running-requests 4
  # graphs for no larger batch than can occur: each takes memory [sglang/srt/server_args.py: spelled --cuda-graph-max-bs before 0.5.14]
  --cuda-graph-max-bs-decode 4
  # tokens of a prompt computed at once: what the plan counted
  --chunked-prefill-size 8192
  # weights and cache together: 97,927 tokens are sure to fit; left alone, SGLang gave the cache of a published run 0.3 GB a GPU with 20 GB free [Kimi K2 on SM120 report (2026-01-29)]
  --mem-fraction-static "$GPU_MEMORY_UTILIZATION"
  # the cache type that was planned: 70,272 bytes a token
  --kv-cache-dtype bfloat16
  # SGLang's own choice; flashinfer can be chosen and was faster in bf16 reports. [catalogue, compat/sglang-sm120-mla: sglang server_args.py at 0.5.23]
  --attention-backend triton
  # reads this model's tool calls: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --tool-call-parser kimi_k2
  # separates thinking from the answer: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --reasoning-parser kimi_k2
  # the repository brings its own configuration and tokenizer; pin its revision, see the notes [sgl-project/sglang docs/cookbook Kimi-K2.6.mdx (2026-08)]
  --trust-remote-code
  # text first: the vision tower and its memory are left out until text is proved [sglang 0.5.18 and newer]
  --language-model-only
  # counters for proofs and benchmarks [sgl-project/sglang docs/cookbook Kimi-K2.6.mdx (2026-08)]
  --enable-metrics
  # usage tells how much of a prompt came from the cache [sgl-project/sglang docs/cookbook Kimi-K2.6.mdx (2026-08)]
  --enable-cache-report
)
if [ "$ENABLE_EAGLE3" = 1 ]; then
  arguments+=(
    # eagle3 guesses 3 tokens ahead: a latency feature, judged on your load [Acceptance about 0.65, 0.40, 0.25 at positions 1 to 3.]
    --speculative-algorithm EAGLE3
    # the draft model [Acceptance about 0.65, 0.40, 0.25 at positions 1 to 3.]
    --speculative-draft-model-path "$EAGLE3_MODEL"
    # guesses one after another
    --speculative-num-steps 3
    # one guess at each step: a chain, no tree
    --speculative-eagle-topk 1
    # the chain and the token before it
    --speculative-num-draft-tokens 4
  )
fi

exec python3 "${arguments[@]}"
