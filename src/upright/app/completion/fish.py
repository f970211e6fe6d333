"""Completion -> a script for fish: upright tools completion fish | source."""

from __future__ import annotations

from upright.app.completion.words import DEPLOYMENTS, Completion, OptionWords, VerbWords, plain, quoted

_LOOKED_UP = """function __upright_deployments
    set -l folder {folder}
    if set -q UPRIGHT_HOME; and test -n "$UPRIGHT_HOME"
        set folder $UPRIGHT_HOME/deployments
    end
    command ls -1 -- $folder 2>/dev/null | string match -r '^[A-Za-z0-9][A-Za-z0-9._-]*$'
end

function __upright_at
    set -l verb (commandline -poc | string match -v -r '^-')[2..-1]
    set -l wanted (string split ' ' -- $argv[1])
    test (count $verb) -ge (count $wanted); and test "$verb[1..$(count $wanted)]" = "$wanted"
end
"""


def script(completion: Completion) -> str:
    lines = ["# upright tools completion fish", _LOOKED_UP.format(folder=quoted(completion.deployments_folder))]
    lines += [_verb(completion, verb) for verb in completion.verbs]
    for verb in completion.verbs:
        where = f"-n {quoted('__upright_at ' + chr(34) + ' '.join(verb.path) + chr(34))}"
        lines += [_option(completion, option, where) for option in verb.options]
        if verb.argument and verb.argument != "files":
            lines.append(f"complete -c upright {where} -a {_words(completion, verb.argument)}")
    return "\n".join(lines) + "\n"


def _verb(completion: Completion, verb: VerbWords) -> str:
    above = verb.path[:-1]
    others = " ".join(sibling.path[-1] for sibling in completion.below(above))
    unseen = f"not __fish_seen_subcommand_from {others}"
    condition = f'__upright_at "{" ".join(above)}"; and {unseen}' if above else unseen
    return f"complete -c upright -f -n {quoted(condition)} -a {verb.path[-1]} -d {quoted(verb.summary)}"


def _option(completion: Completion, option: OptionWords, where: str) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    takes = {None: "", "files": "-rF", "": "-x"}.get(option.takes) if option.takes in (None, "files", "") else ""
    if option.takes and option.takes != "files":
        takes = f"-xa {_words(completion, option.takes)}"
    return f"complete -c upright {where} {names} {takes} -d {quoted(option.summary)}".replace("  ", " ")


def _words(completion: Completion, name: str) -> str:
    return "'(__upright_deployments)'" if name == DEPLOYMENTS else quoted(" ".join(plain(completion.lists[name])))
