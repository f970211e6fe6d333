#!/usr/bin/env bash
# Serves Kimi-K2.6 with sglang 0.5.23, in a container of docker.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: The model's own code is run and no revision is pinned: fetch a revision that you trust (upright fetch OWNER/NAME@REVISION) and serve that.
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-moonshotai/Kimi-K2.6}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-Kimi-K2.6}
PORT=${PORT:-30000}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-65536}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.848}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line
# Upstream's release. By its tag alone, no digest is recorded: docker.io/lmsysorg can put another image under it.
IMAGE=${IMAGE:-lmsysorg/sglang:v0.5.23}
# Fetch first, into HF_HOME: upright fetch moonshotai/Kimi-K2.6
HF_HOME=${HF_HOME:-$HOME/.cache/huggingface}
CACHE_FOLDER=${CACHE_FOLDER:-$HOME/.cache/upright/engines}

if [ ! -s "$KEY_FILE" ]; then
  mkdir -p "$(dirname "$KEY_FILE")"
  (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$KEY_FILE")
  echo "a new API key is in $KEY_FILE" >&2
fi
mkdir -p "$CACHE_FOLDER"

options=(
  --rm --init
  # as you: the key and the caches are yours
  --user "$(id -u):$(id -g)"
  # every GPU, by the NVIDIA container toolkit
  --gpus all
  # clients on this machine only; put a proxy with TLS before it for others
  --publish "127.0.0.1:$PORT:$PORT"
  # ranks share memory through it; --ipc=host would share the whole machine's
  --shm-size 32g --ulimit memlock=-1
  # nothing that an engine does not need
  --cap-drop ALL --security-opt no-new-privileges --read-only --tmpfs /tmp:exec
  # downloaded weights, read-only: fetch them first with `upright fetch`
  --volume "$HF_HOME:/hub:ro"
  # compiled kernels and graphs, kept between starts
  --volume "$CACHE_FOLDER:/cache"
  # the key as a file: it is in no listing and in no `inspect`
  --volume "$KEY_FILE:/run/secrets/upright-key:ro"
  --entrypoint /bin/sh
  # the farthest pair of GPUs is SYS apart: peers talk directly over PCIe, not through host memory [NCCL environment variables, NCCL_P2P_LEVEL: levels are words; integers differ between its own documents]
  --env NCCL_P2P_LEVEL=SYS
  # the root is read-only: caches go to their own folder
  --env HOME=/cache
  # PyTorch names its cache after the user and asks for one
  --env USER=upright
  # where the weights are mounted
  --env HF_HOME=/hub
  # a model's own code is copied before it is run, and the mounted folder is read-only [transformers, utils/hub.py: HF_MODULES_CACHE is HF_HOME/modules unless set]
  --env HF_MODULES_CACHE=/cache/modules
  # nothing is fetched behind your back
  --env HF_HUB_OFFLINE=1
)
arguments=(
  # SGLang's server
  -m sglang.launch_server
  # the artifact that was planned, by the catalogue's figures
  --model-path "$MODEL_PATH"
  # the name that clients use
  --served-model-name "$SERVED_MODEL_NAME"
  # inside the container; the port is published on loopback alone
  --host 0.0.0.0
  # port of the OpenAI-compatible API
  --port "$PORT"
  # the API key from a file of its own: on the command line everybody on the machine could read it [sglang/srt/server_args_config_parser.py]
  --config /tmp/upright-key.yaml
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
  # weights and cache together: 82,508 tokens are sure to fit; left alone, SGLang gave the cache of a published run 0.3 GB a GPU with 20 GB free [Kimi K2 on SM120 report (2026-01-29)]
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

exec docker run "${options[@]}" "$IMAGE" -c 'umask 077; printf "api-key: %s\n" "$(cat /run/secrets/upright-key)" > /tmp/upright-key.yaml; exec "$0" "$@"' python3 "${arguments[@]}"
