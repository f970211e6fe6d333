"""What bash and zsh have in common: tables of words as `case` branches."""

from __future__ import annotations

from upright.app.completion.words import DEPLOYMENTS, Completion, VerbWords, plain, quoted, variable


def tables(completion: Completion) -> str:
    """Variables with the lists, and three functions: what follows a verb, its options, what an option takes."""
    lists = [f"{variable(name)}={quoted(' '.join(plain(choices)))}" for name, choices in completion.lists.items()]
    parents = sorted({verb.path[:-1] for verb in completion.verbs})
    return "\n".join([
        *lists,
        _function("_upright_verbs", [(" ".join(path), _names(completion, path)) for path in parents]),
        _function("_upright_options", [(" ".join(verb.path), _options(verb)) for verb in completion.verbs]),
        _function(
            "_upright_takes",
            [
                (f"{' '.join(verb.path)} {name}", option.takes or "nothing")
                for verb in completion.verbs
                for option in verb.options
                if option.takes is not None
                for name in option.names
            ],
        ),
        _function("_upright_argument", [(" ".join(verb.path), verb.argument or "files") for verb in completion.verbs]),
        _looked_up(completion),
    ])  # fmt: skip


def _function(name: str, branches: list[tuple[str, str]]) -> str:
    lines = "\n".join(f"    {quoted(key)}) printf %s {quoted(branch_text)} ;;" for key, branch_text in branches)
    return f'{name}() {{\n  case "$1" in\n{lines}\n  esac\n}}'


def _names(completion: Completion, path: tuple[str, ...]) -> str:
    return " ".join(verb.path[-1] for verb in completion.below(path))


def _options(verb: VerbWords) -> str:
    return " ".join(name for option in verb.options for name in option.names if name.startswith("--"))


def _looked_up(completion: Completion) -> str:
    """A list by its name; deployments are folders whose names a shell may repeat, by the letters of no language."""
    lists = "\n".join(f'    {quoted(name)}) printf %s "${variable(name)}" ;;' for name in completion.lists)
    folder = quoted(completion.deployments_folder)
    return f"""_upright_list() {{
  case "$1" in
{lists}
    {quoted(DEPLOYMENTS)})
      local folder=${{UPRIGHT_HOME:+$UPRIGHT_HOME/deployments}}
      command ls -1 -- "${{folder:-{folder}}}" 2>/dev/null | LC_ALL=C command grep -E '^[A-Za-z0-9][A-Za-z0-9._-]*$' ;;
  esac
}}"""
