#!/usr/bin/env bash
# Routes to kimi with smg 1.13.0.
# Written by `upright fleet render`; every flag says why it is there.
# Note: /v1/models, /health, /loads and /engine_metrics of smg answer without a key
# Note: what starts smg adds the keys, the list of boxes and --enable-wasm: no process listing shows a key
set -euo pipefail
ROUTER=${ROUTER:-/etc/upright/router}  # __main__.py, workers.json and the keys
SMG_PYTHON=${SMG_PYTHON:-python3}  # of the environment that has smg

for key in client worker admin; do
  if [ ! -s "$ROUTER/$key.key" ]; then
    echo "$ROUTER/$key.key is missing: (umask 077 && openssl rand -hex 24 >$ROUTER/$key.key)" >&2
    exit 2
  fi
done

arguments=(
  # where clients reach it
  --host 127.0.0.1
  # where clients ask
  --port 9000
  # metrics name boxes and models: for this machine alone
  --prometheus-host 127.0.0.1
  # where Prometheus asks
  --prometheus-port 29000
  # each turn begins with the whole conversation before it, and the box that read that has it in its cache (prefix_hash looks at the first 1024 characters, which all agents share; consistent_hashing wants a header)
  --policy cache_aware
  # a turn that repeats more than this of its text stays; a new task shares 12,000 of 14,000 tokens with others (0.86) and goes where there is room [smg 1.13.0, model_gateway/src/policies/cache_aware.rs: only a longer match than this decides the box; usages coding-agent: shared_tokens, opening_tokens]
  --cache-threshold 0.9
  # so many requests over the mean make a box too full
  --balance-abs-threshold 8
  # a dead box is found within two of these
  --health-check-interval-secs 5
  # one slow answer is not a death
  --health-failure-threshold 2
  # a box was proved before it was put on the list
  --health-success-threshold 1
  # a box under load still answers /health
  --health-check-timeout-secs 5
  # a dead box stays on the list and is taken again when it is back
  --no-remove-unhealthy-workers
  # the default looks for a new box only every 30 s
  --worker-startup-check-interval 1
  # the list is read when it changes; this is for disks that do not tell
  --discovery-check-interval-secs 5
  # long answers are what agents wait for
  --request-timeout-secs 3600
  # a request that no box has begun to answer goes to another one
  --retry-max-retries 3
  # the default waits up to 30 s between two boxes
  --retry-max-backoff-ms 2000
  # a box that failed ten times is tried again after this
  --cb-timeout-duration-secs 10
  # four times what 2 boxes with 8 users each serve at once
  --max-concurrent-requests 64
  # as many wait for a place; more are told 429 at once
  --queue-size 64
  # and not for ever
  --queue-timeout-secs 60
  # engines count their own tokens: nothing is fetched
  --disable-tokenizer-autoload
  # conversations are the clients': none is kept here
  --history-backend none
  # running answers may end
  --shutdown-grace-period-secs 30
)

exec "$SMG_PYTHON" -B "$ROUTER" "${arguments[@]}"
