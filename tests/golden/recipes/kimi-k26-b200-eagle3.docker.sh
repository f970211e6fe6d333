#!/usr/bin/env bash
# Serves kimi-k2.6 with vllm, in a container of docker.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: The model's own code is run and no revision is pinned: fetch a revision that you trust (upright fetch OWNER/NAME@REVISION) and serve that.
# Note: The draft model is loaded besides: fetch it too (upright fetch lightseekorg/kimi-k2.6-eagle3).
# Note: Image vllm-cu130-nightly: newer transformers read Kimi's tokenizer differently: keep 4.57.6.
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-moonshotai/Kimi-K2.6}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-kimi-k2.6}
PORT=${PORT:-8001}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-16384}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.9}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line
# What Lambda's guide runs Kimi-K2.6 with on HGX B200, with transformers pinned to 4.57.6 inside. A nightly: two pulls are two engines. By its tag alone, no digest is recorded: docker.io/vllm can put another image under it.
IMAGE=${IMAGE:-vllm/vllm-openai:cu130-nightly}
# Fetch first, into HF_HOME: upright fetch moonshotai/Kimi-K2.6; upright fetch lightseekorg/kimi-k2.6-eagle3
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
  # no telemetry [vLLM docs, usage_stats]
  --env VLLM_NO_USAGE_STATS=1
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
  # the artifact that was planned, by the catalogue's figures
  serve "$MODEL_PATH"
  # the name that clients use
  --served-model-name "$SERVED_MODEL_NAME"
  # inside the container; the port is published on loopback alone
  --host 0.0.0.0
  # port of the OpenAI-compatible API
  --port "$PORT"
  # every layer is divided over 8 GPUs
  --tensor-parallel-size 8
  # the context that was planned; longer is also slower at short prompts [local-inference-lab/rtx6kpro models/kimi-k26-v4.md]
  --max-model-len "$MAX_MODEL_LEN"
  # requests at once: 32 asked for, 135 fit at full context, and an agent's short side calls
  --max-num-seqs 135
  # tokens computed at once: what the plan's scratch memory was counted with
  --max-num-batched-tokens 8192
  # the share of each GPU that was planned: 2,219,904 tokens of cache are sure to fit
  --gpu-memory-utilization "$GPU_MEMORY_UTILIZATION"
  # the cache type that was planned: 35,712 bytes a token; said aloud, since `auto` follows the checkpoint
  --kv-cache-dtype fp8
  # fuses the all-reduce after attention with the norm that follows; needs NVLink and SM 9.x or 10.x [How to deploy Kimi K2.6 on Lambda (2026)]
  --compilation-config '{"pass_config":{"fuse_allreduce_rms":true}}'
  # clients may let the model choose a tool [catalogue, models/kimi-k2.6]
  --enable-auto-tool-choice
  # reads this model's tool calls: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --tool-call-parser kimi_k2
  # separates thinking from the answer: by the catalogue's row of this model [catalogue, models/kimi-k2.6]
  --reasoning-parser kimi_k2
  # the repository brings its own configuration and tokenizer; pin its revision, see the notes [vllm-project/recipes models/moonshotai]
  --trust-remote-code
  # the vision tower is small: a copy on each GPU beats dividing it [How to deploy Kimi K2.6 on Lambda (2026)]
  --mm-encoder-tp-mode data
  # eagle3 guesses 3 tokens ahead: a latency feature, judged on your load [Poor on SM120; Lambda's B200 guide uses it.]
  --speculative-config '{"method":"eagle3","num_speculative_tokens":3,"model":"lightseekorg/kimi-k2.6-eagle3"}'
  # sequences x (guesses + 1): larger batches would leave the CUDA graphs [local-inference-lab/rtx6kpro models/kimi-k26-v2.md]
  --max-cudagraph-capture-size 540
  # an agent sends the same long prefix with every call; off only pays for prompts that share nothing [vLLM docs, automatic prefix caching]
  --enable-prefix-caching
  # usage tells how much of a prompt came from the cache, which proofs and benchmarks read [vLLM 0.32.0, cli_args.py]
  --enable-prompt-tokens-details
)

exec docker run "${options[@]}" "$IMAGE" -c 'export PYTHONUSERBASE=/cache/python PIP_BREAK_SYSTEM_PACKAGES=1; pip install -q --user transformers==4.57.6 || exit 1; export VLLM_API_KEY="$(cat /run/secrets/upright-key)"; exec "$0" "$@"' vllm "${arguments[@]}"
