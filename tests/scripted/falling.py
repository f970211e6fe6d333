"""An engine that falls on cue: prints what it is told to and ends, or stands until a prompt is too long for it.

    falling.py SCRIPT.json ...      SCRIPT: {"says": [lines], "dies": true} or {"says": [lines], "longest": characters}

Only for failures that need silicon, which no test machine has; what a CPU can show is shown by a real engine.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text())
    words = sys.argv[2:]
    print("server_args=ServerArgs(model_path=...)", flush=True)
    if script.get("dies"):
        say(script)
        sys.exit(1)
    port = int(words[words.index("--port") + 1])

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(b"{}")

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if len(asked) > script.get("longest", 1 << 30):
                say(script)
                os._exit(1)
            message = {"role": "assistant", "content": "OK"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.reply(json.dumps({"choices": [choice], "usage": usage}).encode())

        def reply(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    print("The server is fired up and ready to roll!", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Answers).serve_forever()


def say(script: dict[str, list[str]]) -> None:
    print("\n".join(script["says"]), flush=True)


if __name__ == "__main__":
    main()
