"""The command line: the table of verbs, and expected errors as two lines.

Help must be instant: the table below is all that `upright --help` loads; a verb's own module is imported when it is
called. A test holds every line of the table against the verb's docstring.
"""

from __future__ import annotations

import errno
import sys

import click

from upright import __version__
from upright.app.cli.lazy import LazyGroup
from upright.base.errors import UprightError
from upright.base.home import restrict_umask
from upright.base.terminal.error_messages import print_bug, print_error, print_os_error, typed_command
from upright.base.terminal.safe_output import prepare_streams
from upright.base.untrusted_text import checked_name

SECTIONS: dict[str, dict[str, str]] = {
    "Know before you act": {
        "recommend": "Say which models to run on a box, best first, and why.",
        "probe": "Look at a machine: processors, memory, GPUs, engines.",
        "read": "Read what a model is made of, from its headers.",
        "plan": "Say whether the model fits, with how much context.",
        "compare": "Put models, boxes or engines side by side: what each step up buys, and costs.",
        "render": "Write the exact command, with a reason for every flag.",
        "check": "Let the engine's own parser judge the command, before anything starts.",
    },
    "Act": {
        "demo": "Try it all in half a minute, on a model of 1.2 MB and without a GPU.",
        "engine": "Say which engines are at hand, and how to get one.",
        "run": "Do all of it: probe, read, plan, start, prove, report.",
        "launch": "Get a model standing, and start your own agent on it.",
        "fetch": "Bring exactly the files that an engine needs, verified.",
        "rehearse": "Start the engine on the real shapes before any weights are here.",
        "up": "Start an engine and wait until it really answers.",
        "ps": "List deployments and their state.",
        "top": "Watch deployments live: tokens, queue, cache, errors, watts.",
        "logs": "Show an engine's log.",
        "restart": "Stop a deployment and start it again.",
        "down": "Stop a deployment.",
        "diagnose": "Say why an engine fell, by its log and its machine, and what to change.",
    },
    "Several boxes": {
        "fleet": "Keep several boxes behind one endpoint: plan, start, watch, roll, end.",
    },
    "Evidence and use": {
        "prove": "Climb the proof ladder on a running deployment, or on anybody's server.",
        "bench": "Measure what an endpoint carries, and say what really happened.",
        "record": "Record your own agent's session as a trace: lengths, times and shared prefixes, never text.",
        "connect": "Print the settings for a client.",
        "monitor": "Write what Prometheus and Grafana need to watch deployments.",
        "residuals": "Show what an engine took against what was planned, term by term.",
        "bundle": "Pack a deployment for somebody else: records, logs, evidence, redacted.",
        "verify": "Check somebody's evidence: every headline from its raw samples, digests, redaction, physics.",
        "replay": "Repeat somebody's evidence on this machine, and say cell by cell whether it comes to the same.",
        "field-test": "Spend the first hour on a box: what Upright claims, tried; what it was wrong about.",
        "index": "Search evidence that others shared, and keep an index of it: static files, signed, no server.",
        "report": "Write the report: one page, self-contained.",
    },
    "Depth": {
        "explain": "Explain anything: a failure, a flag, a field, a term, a GPU, a model, a line of a log.",
        "calibrate": "Fit the constants of speed on your own measurements.",
        "catalog": "Look up facts: GPUs, boxes, models, failures, flags, measurements.",
        "store": "Look after the directories that deployments leave.",
        "kernels": "Prove without a GPU that an engine's kernels fit a silicon.",
        "completion": "Write a script that completes verbs, options, models, boxes and deployments in your shell.",
        "site": "Publish the planner as a page that works in any browser, offline too.",
        "patch": "Patch an installed engine, with proof, and take it back.",
    },
}
_LONGEST_WORD = 1 << 20
"""Of a command; what is a name is measured as one."""
_NOT_OURS = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENAMETOOLONG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP,
        errno.EFBIG, errno.ENXIO, errno.EISDIR, errno.ENOTDIR,
    }
)  # fmt: skip
"""What a disk, a person's rights or words, or a planted file make impossible."""
OTHER_WORDS = {
    "benchmark": "bench", "test": "prove", "serve": "up",
    "start": "up", "launch": "up", "deploy": "up", "stop": "down", "kill": "down", "list": "ps", "ls": "ps",
    "status": "ps", "download": "fetch", "pull": "fetch", "inspect": "read", "doctor": "probe", "size": "fleet size",
}  # fmt: skip
"""Verbs of other tools, and ours for them."""
VERBS = {verb: summary for verbs in SECTIONS.values() for verb, summary in verbs.items()}


class Verbs(LazyGroup):
    """Verb `x` is `upright.app.cli.x:command`."""

    table = VERBS
    module = "upright.app.cli."

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no such verb: {args[0]}{_nearest(args[0])}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, verbs in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(verbs.items()))


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "UPRIGHT", "max_content_width": 100},
    epilog="Every verb has --help and --json. Exit code: 0 done, 1 the answer is no, 2 misuse or broken.",
)
@click.version_option(__version__, message="upright %(version)s")
def cli() -> None:
    """Gets a frontier mixture-of-experts model standing on the box you have, and proves that it stands.

    \b
    First time?   upright demo
    """


def main() -> None:
    """Expected errors become two lines, bugs keep their traceback; both end with 2, since 1 is an answer."""
    prepare_streams()
    restrict_umask()
    try:
        if sys.argv[1:2] != ["explain"]:  # which takes a line of a log as it is
            for word in sys.argv[1:]:
                checked_name(word, _LONGEST_WORD)
        code = cli.main(prog_name="upright", standalone_mode=False)
    except UprightError as error:
        print_error(error.message, error.hint)
        sys.exit(2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else typed_command(cli, sys.argv[1:])
        print_error(error.format_message(), f"{where} --help")
        sys.exit(2)
    except click.ClickException as error:
        print_error(error.format_message(), None)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            print_bug(error, __version__)
        else:
            print_os_error(error)
        sys.exit(2)
    except Exception as error:
        print_bug(error, __version__)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _nearest(word: str) -> str:
    from difflib import get_close_matches

    close = [OTHER_WORDS[word]] if word in OTHER_WORDS else get_close_matches(word, VERBS, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
