"""The rows of what is handed on of a person's environment -> docs/environment.md."""

from __future__ import annotations

from pathlib import Path

OWNED = ["docs/environment.md"]
_HEAD = """# What an engine is given of your environment

An engine runs code that comes with a model (`--trust-remote-code`), and what it is started with it can read. Upright
hands on the variables of this table and no others: no key, no token, no password. It holds for engines as processes
and for the clients of podman and docker, on this machine and over ssh (where the variables are that machine's), for
the programs that `bench --with` starts, and for the process that keeps an engine, since an engine could read its
environment too. A container is given what its recipe names, whatever its client has.

A name that begins as a row says and looks like a secret (`…_KEY`, `…_TOKEN`, `…_PASSWORD` and the like) is not handed
on.

**One more** is yours to give, by its name; its value goes into no record, no file and no process listing:

```bash
export HF_TOKEN=…            # the engine itself fetches something that is not public
upright up MODEL --env HF_TOKEN
```

`--env` may be given several times, to `up` and to `run`. In a recipe it is a variable with the value `{environment}`,
so that a restart hands it on again; it must be set wherever `restart` is typed. On another machine it is that
machine's own variable: put it there, or let your ssh bring it (`SendEnv` in your configuration). `render` writes the
name for each target: a script and compose ask for it, systemd passes it, Kubernetes takes it from a secret.

A script that `render` wrote hands on what the shell has that it is started in.

| variables | to | why |
|---|---|---|
"""


READ = {
    "UPRIGHT_HOME": "where it keeps what it makes and fetches; by itself your data directory",
    "UPRIGHT_LLAMA_SERVER": "the `llama-server` to take, of llama.cpp or of ik_llama.cpp (its help tells which)",
    "UPRIGHT_SMG": "the router `smg`, where a fleet file does not name it",
    "UPRIGHT_KERNELS_PYTHON": "a Python that has Triton, for `tools kernels`",
    "UPRIGHT_SSH_COMMAND": "the ssh that reaches other machines, with its options",
    "UPRIGHT_EVIDENCE": "the repository that `share bundle --send` hands evidence to",
}
"""What Upright itself reads, and why."""
_TAIL = """
What Upright itself reads, beside a variable for every option (`UPRIGHT_UP_PORT` for `up --port`):

| variable | what it says |
|---|---|
"""


def pages() -> dict[Path, str]:
    from upright.base.host.environment import passed_variables

    rows = []
    for row in passed_variables():
        names = ", ".join([*(f"`{name}`" for name in row.names), *(f"`{prefix}…`" for prefix in row.prefixes)])
        rows.append(f"| {names} | {', '.join(row.to)} | {row.why} [(source)]({row.source}) |")
    own = "\n".join(f"| `{name}` | {what} |" for name, what in READ.items())
    return {Path("docs/environment.md"): _HEAD + "\n".join(rows) + f"\n{_TAIL}{own}\n"}
