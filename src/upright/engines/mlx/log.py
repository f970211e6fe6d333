"""mlx_lm.server's log, 0.32.2: what it serves and how it falls. Of its memory it says nothing."""

from __future__ import annotations

from upright.engines.facets.log import Log, Mark

LOG = Log(
    tracker="https://github.com/ml-explore/mlx-lm/issues/new",
    shape=r"\bmlx_lm\.server (?:is not recommended for production|generation thread died)|\bmlx_lm[/\\]server\.py\b"
    r"| - INFO - Prompt Cache: \d+ sequences, ",
    hints=r"\bmlx_lm\b|\bmlx\.(?:core|nn)\b|\bmlx[/\\](?:nn|core)\b"
    r"|(?<![\w-])--(?:prompt-cache-bytes|decode-concurrency|prompt-concurrency|quantized-kv-start)(?![\w-])",
    marks=(
        Mark("start", r"mlx_lm\.server is not recommended for production"),
        Mark("death", r"mlx_lm\.server generation thread died: "),
    ),
    serves=r"\"POST /(?:v1/)?(?:chat/)?completions HTTP/1\.\d\" 200|Prompt processing progress: \d+/\d+",
    answers=r" - INFO - Prompt Cache: [1-9]\d* sequences, ",
    complaint=r" - ERROR - mlx_lm\.server | - WARNING - (?:Received tools but|Failed to parse tool call)",
    echo=r"RuntimeError: generation thread died",
    silent_hint="it prints nothing of its memory",
)
