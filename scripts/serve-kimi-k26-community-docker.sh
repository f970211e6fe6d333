#!/usr/bin/env bash
# Serves Kimi-K2.6 with vllm 0.20.2rc1.dev249 at commit 68b3569f2, in a container of docker.
# Written by `upright render`; every flag says why it is there and [where that was learned].
# Note: The flags of 0.20.2rc1.dev249 were never recorded; these are the ones that 0.20.0 takes. Run `upright check`.
# Note: The model's own code is run and no revision is pinned: fetch a revision that you trust (upright fetch OWNER/NAME@REVISION) and serve that.
# Note: fp8 cache: Community builds carry the tuning for SM 12.0 and were measured with it; answers must still be proved at the context that you use. Run the proof at full context before you rely on it.
# Note: Image voip-glm-kimi-canonical-20260514: its memory profiler does not count CUDA graphs: they come out of what --gpu-memory-utilization leaves, so DCP above 1 with a draft needs 0.90.
# Note: Image voip-glm-kimi-canonical-20260514: the PCIe all-reduce without true BAR1 peer access: 26 tok/s instead of 104; VLLM_ENABLE_PCIE_ALLREDUCE=0 then.
# Note: CVE-2026-47155 (medium): vLLM's --revision does not pin everything that is loaded. vLLM 0.22.0 or newer (pull request 42616), or serve a folder that `upright fetch` has verified.
# Note: CVE-2026-48746 (critical): vLLM's API key is bypassed by a Host header. vLLM 0.22.0 or newer (pull request 43426), the address 127.0.0.1, or a web server in front that refuses such headers, such as nginx.
# Note: CVE-2026-54232 (high): vLLM's image takes a package from the first index that has its name. An image of vLLM 0.22.1 or newer, by its digest; build none by the older Dockerfile.
# Note: CVE-2026-73558 (medium): an overflow in vLLM's activation kernel gives one user another's answer. vLLM 0.27.0 or newer (pull request 49660), where users must not see each other's answers.
# Note: CVE-2026-73559 (medium): one completion request with a list of prompts fills vLLM. vLLM 0.26.0 or newer (pull request 47845).
set -euo pipefail

MODEL_PATH=${MODEL_PATH:-moonshotai/Kimi-K2.6}
SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-Kimi-K2.6}
PORT=${PORT:-5000}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-65536}
GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.9}
ENABLE_EAGLE3=${ENABLE_EAGLE3:-0}  # 1: speculative decoding with a draft model: prove the base first
EAGLE3_MODEL=${EAGLE3_MODEL:-lightseekorg/kimi-k2.6-eagle3-mla}
KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line
# The image behind the 255 published cells of Kimi-K2.6 on 8x RTX PRO 6000: DCP 1 to 8, with and without EAGLE3, fp8 cache. Users report slower speculation than the image of 2026-05-10. By its tag alone, no digest is recorded: docker.io/voipmonitor (none of the engine's makers) can put another image under it.
IMAGE=${IMAGE:-voipmonitor/vllm:glm-kimi-canonical-rebase-layered-vllm68b3569f-b12xc929144-flashinfergit1a60071-cutedsl45-20260514}
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
  # no telemetry [vLLM docs, usage_stats]
  --env VLLM_NO_USAGE_STATS=1
  # the farthest pair of GPUs is SYS apart: peers talk directly over PCIe, not through host memory [NCCL environment variables, NCCL_P2P_LEVEL: levels are words; integers differ between its own documents]
  --env NCCL_P2P_LEVEL=SYS
  # ranks are numbered as the slots are [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env CUDA_DEVICE_ORDER=PCI_BUS_ID
  # CPU threads of each rank [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env OMP_NUM_THREADS=16
  # CuTe kernels are compiled for SM 12.0 [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env CUTE_DSL_ARCH=sm_120a
  # hardware queues of each GPU [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env CUDA_DEVICE_MAX_CONNECTIONS=32
  # one box: InfiniBand is not looked for [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env NCCL_IB_DISABLE=1
  # with the patched NCCL all three protocols are open; larger reductions go this way [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env NCCL_PROTO='LL,LL128,Simple'
  # the patched NCCL needs no topology file [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env USE_NCCL_XML=0
  # no topology file: one for 8 ranks breaks smaller DCP groups [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env NCCL_GRAPH_FILE=''
  # NCCL 2.30.3 with pull request 2127: right ring graphs on AMD Turin [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_NCCL_SO_PATH=/opt/libnccl-pr2127.so.2.30.3
  # the same NCCL for PyTorch [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env LD_PRELOAD=/opt/libnccl-pr2127.so.2.30.3
  # the image's own all-reduce over PCIe; needs true BAR1 peer access [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_ENABLE_PCIE_ALLREDUCE=1
  # its C++ kernel [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_PCIE_ALLREDUCE_BACKEND=cpp
  # larger reductions are NCCL's: without a cutoff 902 instead of 943 tok/s at 64 requests [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_CPP_AR_1STAGE_NCCL_CUTOFF=56KB
  # up to 8 rows stay with the C++ kernel whatever their size [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_CPP_AR_IGNORE_CUTOFF_MAX_ROWS=8
  # experimental, and off in the published runs [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_RTX6K_FUSED_ALLREDUCE_ADD=0
  # experimental, and off in the published runs [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_RTX6K_FUSED_ALLREDUCE_ADD_END_BARRIER=0
  # Kimi has no indexer; GLM sets 1 [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_USE_B12X_SPARSE_INDEXER=0
  # shared experts run beside the routed ones [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_DISABLE_SHARED_EXPERTS_STREAM=0
  # CUDA graphs are not counted: counted, the DCP 8 cache falls from 2.62M to 1.74M tokens [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0
  # a line of figures each second, which `upright tools top` and `diagnose` read [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_LOG_STATS_INTERVAL=1
  # the kernel that the published runs leave out [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_DISABLED_KERNELS=MarlinFP8ScaledMMLinearKernel
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env XDG_CACHE_HOME=/cache/jit
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env CUDA_CACHE_PATH=/cache/jit
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_CACHE_DIR=/cache/jit/vllm
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env TVM_FFI_CACHE_DIR=/cache/jit/tvm-ffi
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env FLASHINFER_WORKSPACE_BASE=/cache/jit/flashinfer
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env VLLM_CACHE_ROOT=/cache/vllm
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env TRITON_CACHE_DIR=/cache/triton
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env TORCHINDUCTOR_CACHE_DIR=/cache/torchinductor
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env TORCH_EXTENSIONS_DIR=/cache/jit/torch_extensions
  # compiled kernels are kept in the mounted folder of caches [catalogue, images/voip-glm-kimi-canonical-20260514]
  --env CUTE_DSL_CACHE_DIR=/cache/cutlass_dsl
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
  # 8 ranks share one copy of the cache, which tensor parallelism alone would keep 8 times [https://github.com/vllm-project/vllm/pull/23734]
  --decode-context-parallel-size 8
  # the context that was planned; longer is also slower at short prompts [local-inference-lab/rtx6kpro models/kimi-k26-v4.md]
  --max-model-len "$MAX_MODEL_LEN"
  # requests at once: 1 asked for, 38 fit at full context, and an agent's short side calls
  --max-num-seqs 38
  # tokens computed at once: what the plan's scratch memory was counted with
  --max-num-batched-tokens 8192
  # the share of each GPU that was planned: 2,508,800 tokens of cache are sure to fit
  --gpu-memory-utilization "$GPU_MEMORY_UTILIZATION"
  # the cache type that was planned: 35,136 bytes a token; said aloud, since `auto` follows the checkpoint
  --kv-cache-dtype fp8
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
  # fuses the rotary embedding with the write into the MLA cache, in whole CUDA graphs [catalogue, images/voip-glm-kimi-canonical-20260514]
  --compilation-config '{"pass_config":{"fuse_rope_kvcache_cat_mla":true},"splitting_ops":[]}'
)
if [ "$ENABLE_EAGLE3" = 1 ]; then
  arguments+=(
    # eagle3 guesses 3 tokens ahead: a latency feature, judged on your load [Acceptance about 0.65, 0.40, 0.25 at positions 1 to 3.]
    --speculative-config '{"method":"eagle3","num_speculative_tokens":3,"model":"'"$EAGLE3_MODEL"'"}'
    # sequences x (guesses + 1): larger batches would leave the CUDA graphs [local-inference-lab/rtx6kpro models/kimi-k26-v2.md]
    --max-cudagraph-capture-size 132
  )
fi

exec docker run "${options[@]}" "$IMAGE" -c 'export VLLM_API_KEY="$(cat /run/secrets/upright-key)"; exec "$0" "$@"' /opt/venv/bin/vllm "${arguments[@]}"
