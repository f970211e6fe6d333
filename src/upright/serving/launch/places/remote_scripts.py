"""Shell scripts for another machine, fed through stdin, and what their output means.

Plain POSIX sh with setsid and /proc. The leader of the session is a small shell that waits for the engine and writes
its exit code; its pid, start time and boot name it, as processes are named here.
"""

from __future__ import annotations

import re
import shlex

from upright.base.host import environment_script
from upright.facts.records.deployment import Process
from upright.serving.launch.runtimes import Command

_IDENTITY = re.compile(r"^upright-process (\d+) (\d+) (\S+)$", re.MULTILINE)
_VERDICT = re.compile(r"^upright-verdict (alive|gone|\d+)$", re.MULTILINE)
_NOW = """boot=$(cat /proc/sys/kernel/random/boot_id)
ticks() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
"""
_READ = """read -r _ pid started when <process 2>/dev/null || pid=
[ -n "$pid" ] && [ "$when" = "$boot" ] && now=$(ticks "$pid") || now=
"""
# Members of the group that are no zombies: an init that does not reap them would make it look alive for ever.
_LEFT = """left() { cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -q "^[^ZX] [0-9]* $pid "; }
"""
# Guard: dash wants `--` before a group's number, busybox takes it for a number: the harmless signal tells which it is.
# Sent once only, since a second SIGTERM makes llama-server drop everything and exit with code 1.
_SEND = """send() {
  if kill -s 0 -- "-$pid" 2>/dev/null; then kill -s "$1" -- "-$pid"; else kill -s "$1" "-$pid"; fi 2>/dev/null
}
"""


def start(folder: str, command: Command, key: str, key_config: str) -> str:
    """The key is a word of this script alone: `printf` is the shell's own, and no process is given it."""
    secret = shlex.quote(key)
    lines = ["set -e", "umask 077", f'folder="$HOME/{folder}"', 'mkdir -p "$folder"', 'cd "$folder"']
    lines += [f"mkdir -p {shlex.quote(needed_folder)}" for needed_folder in command.folders]
    lines += [_NOW, "rm -f exit process", ": >log", f"printf '%s\\n' {secret} >key"]
    if key_config in command.argv:
        lines.append(f"printf 'api-key: %s\\n' {secret} >key.yaml")
    # As one quoted word: a here-document ends at the first line that is its end word, whoever wrote that line.
    lines.append(f"printf '%s\\n' {shlex.quote(chr(10).join(_run(command)))} >run")
    lines += [
        "setsid sh ./run </dev/null >/dev/null 2>&1 &",
        "leader=$!",
        'echo "upright-process $leader $(ticks $leader) $boot" >process.new',
        "mv process.new process",
        "cat process",
    ]
    return "\n".join(lines) + "\n"


def look(folder: str) -> str:
    return f"""cd "$HOME/{folder}" 2>/dev/null || {{ echo upright-verdict gone; exit; }}
{_NOW}{_READ}cat process 2>/dev/null
if [ -f exit ]; then echo "upright-verdict $(cat exit)"
elif [ -n "$now" ] && [ "$now" = "$started" ]; then echo upright-verdict alive
else echo upright-verdict gone; fi
"""


def end(folder: str, patience_seconds: float) -> str:
    """The whole group, also when its leader is gone; never a group that was given the same number later.

    The key does not stay behind: a start brings it again.
    """
    return f"""cd "$HOME/{folder}" 2>/dev/null || {{ echo upright-verdict gone; exit; }}
ended() {{ rm -f key key.yaml; echo upright-verdict gone; exit; }}
{_LEFT}{_SEND}{_NOW}{_READ}[ -n "$pid" ] && [ "$when" = "$boot" ] || ended
[ -z "$now" ] || [ "$now" = "$started" ] || ended
for signal in TERM KILL; do
  left || ended
  send $signal
  tries={round(patience_seconds * 10)}
  while [ $tries -gt 0 ]; do
    left || ended
    sleep 0.1; tries=$((tries-1))
  done
done
echo upright-verdict alive
"""


def follow(folder: str, received_bytes: int, pid: int) -> str:
    """Ends with the engine where `tail` can wait for a process, so that none stays behind a broken connection."""
    first = f'-c +{received_bytes + 1} -f "$HOME/{folder}/log"'
    return f"tail --pid={pid} {first} 2>/dev/null || exec tail {first}"


def rest(folder: str, received_bytes: int) -> str:
    return f'tail -c +{received_bytes + 1} "$HOME/{folder}/log" 2>/dev/null\n'


def identity(said: str) -> Process | None:
    identity_match = _IDENTITY.search(said)
    return (
        Process(pid=int(identity_match[1]), started_ticks=int(identity_match[2]), boot_id=identity_match[3])
        if identity_match
        else None
    )


def verdict(said: str) -> str | None:
    """`alive`, `gone`, or an exit code as subprocess counts them: minus a signal's number."""
    verdict_match = _VERDICT.search(said)
    if verdict_match is None or not verdict_match[1].isdigit():
        return verdict_match[1] if verdict_match else None
    code = int(verdict_match[1])
    return str(128 - code if code > 128 else code)


def _run(command: Command) -> list[str]:
    lines = ["exec >>log 2>&1", environment_script(command.to, named=command.passed)]
    lines += [f"export {name}={shlex.quote(setting)}" for name, setting in command.environment.items()]
    if command.key_variable:
        lines.append(f'{command.key_variable}="$(cat key)"; export {command.key_variable}')
    return [
        *lines,
        f"{shlex.join(command.argv)} </dev/null &",
        "engine=$!",
        "trap : TERM INT HUP",  # the group's signals reach the engine; its shell stays to write the code down
        "wait $engine; code=$?",
        "while kill -s 0 $engine 2>/dev/null; do wait $engine; code=$?; done",
        "echo $code >exit.new && mv exit.new exit",
    ]
