"""The command line: expected errors as two lines.

Help must be instant: the table of verbs is all that `upright --help` loads; a verb's own module is imported when it is
called. A test holds every line of the table against the verb's docstring.
"""

from __future__ import annotations

import errno
import sys

import click

from upright import __version__
from upright.app.cli.lazy import LazyGroup
from upright.app.cli.verbs import OTHER_WORDS, SECTIONS, SHOWN, VERBS, words_of
from upright.base.errors import UprightError
from upright.base.home import restrict_umask
from upright.base.terminal.error_messages import print_bug, print_error, print_os_error, typed_command
from upright.base.terminal.safe_output import prepare_streams
from upright.base.untrusted_text import checked_name

_LONGEST_WORD = 1 << 20
"""Of a command; what is a name is measured as one."""
_NOT_OURS = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENAMETOOLONG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP,
        errno.EFBIG, errno.ENXIO, errno.EISDIR, errno.ENOTDIR,
    }
)  # fmt: skip
"""What a disk, a person's rights or words, or a planted file make impossible."""

_OF_POSIX = frozenset({"fcntl", "termios", "tty", "resource", "pwd", "grp", "pty"})
"""What acts on engines needs them; what only knows does not."""
_WITHOUT_POSIX = (
    "planning and reading work here (recommend, plan, render, explain, diagnose FILE); act under WSL or by ssh"
)


class Verbs(LazyGroup):
    """Verb `x` is `upright.app.cli.x:command`; help and completion show those that stand under no other."""

    table = VERBS
    module = "upright.app.cli."

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SHOWN)

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
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "UPRIGHT", "max_content_width": 100},
    epilog="Every verb has --help and --json. Exit code: 0 done, 1 the answer is no, 2 misuse or broken.",
)
@click.version_option(__version__, message="upright %(version)s")
@click.option("--json", "as_json", is_flag=True, help="Without a verb: the answer as JSON.")
@click.pass_context
def cli(ctx: click.Context, as_json: bool) -> None:
    """Gets a frontier mixture-of-experts model standing on the box you have, and proves that it stands.

    \b
    Alone it says what this machine can run, and what to type next.
    First time?   upright demo
    """
    if ctx.invoked_subcommand is None:
        from upright.app.cli.first_look import answer
        from upright.app.cli.output import Output

        answer(Output(as_json, None))
    elif as_json:
        raise click.UsageError(f"--json stands behind the verb: upright {ctx.invoked_subcommand} … --json", ctx=ctx)


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
        _tell(error)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _tell(error: Exception) -> None:
    if isinstance(error, ImportError) and error.name in _OF_POSIX:
        print_error(f"this needs Linux or macOS: {sys.platform} has no {error.name}", _WITHOUT_POSIX)
    else:
        print_bug(error, __version__)


def _nearest(word: str) -> str:
    from difflib import get_close_matches

    close = [OTHER_WORDS[word]] if word in OTHER_WORDS else get_close_matches(word, VERBS, n=1)
    return f" (did you mean {' '.join(words_of(close[0]))}?)" if close else ""
