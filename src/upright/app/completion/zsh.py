"""Completion -> a script for zsh: source <(upright tools completion zsh), or a file _upright on the fpath."""

from __future__ import annotations

from upright.app.completion.posix import tables
from upright.app.completion.words import Completion

_DRIVER = """
_upright() {
  local current=$words[CURRENT] previous=$words[CURRENT-1] verb='' word list='' index
  local -i arguments=0
  local -a offered
  for ((index = 2; index < CURRENT; index++)); do
    word=$words[index]
    if [[ $word == -* ]]; then continue; fi
    if [[ " $(_upright_verbs "$verb") " == *" $word "* ]]; then verb="${verb:+$verb }$word"; continue; fi
    if [[ -z $(_upright_takes "$verb $words[index-1]") ]]; then arguments+=1; fi
  done
  list=$(_upright_takes "$verb $previous")
  if [[ -z $list ]]; then
    if [[ $current == -* ]]; then
      offered=(${=$(_upright_options "$verb")} --help)
      compadd -a offered
      return
    fi
    if [[ -n $(_upright_verbs "$verb") ]]; then
      offered=(${=$(_upright_verbs "$verb")})
      compadd -a offered
      return
    fi
    if ((arguments == 0)); then list=$(_upright_argument "$verb"); fi
    list=${list:-files}
  fi
  if [[ $list == nothing ]]; then return; fi
  offered=(${=$(_upright_list "$list")})
  if ((${#offered})); then compadd -a offered; fi
  if [[ $list == files || $list == models ]]; then _files; fi
}
if (( ! $+functions[compdef] )); then autoload -Uz compinit && compinit -D; fi
if [[ $funcstack[1] == _upright ]]; then _upright "$@"; else compdef _upright upright; fi
"""


def script(completion: Completion) -> str:
    return f"#compdef upright\n# upright tools completion zsh\n{tables(completion)}\n{_DRIVER}"
