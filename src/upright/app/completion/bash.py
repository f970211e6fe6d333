"""Completion -> a script for bash: source <(upright tools completion bash)."""

from __future__ import annotations

from upright.app.completion.posix import tables
from upright.app.completion.words import Completion

_DRIVER = """
_upright() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb='' arguments=0 word index list=''
  COMPREPLY=()
  # bash parts words at `=` and `:`
  if [[ $current == "=" ]]; then current=''; elif [[ $previous == "=" ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=${COMP_WORDS[index]}
    if [[ $word == -* ]]; then continue; fi
    if [[ " $(_upright_verbs "$verb") " == *" $word "* ]]; then verb="${verb:+$verb }$word"; continue; fi
    if [[ -z $(_upright_takes "$verb ${COMP_WORDS[index-1]}") ]]; then arguments=$((arguments + 1)); fi
  done
  list=$(_upright_takes "$verb $previous")
  if [[ -z $list ]]; then
    if [[ $current == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$(_upright_options "$verb") --help" -- "$current")
      return
    fi
    if [[ -n $(_upright_verbs "$verb") ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$(_upright_verbs "$verb")" -- "$current")
      return
    fi
    if ((arguments == 0)); then list=$(_upright_argument "$verb"); fi
    list=${list:-files}
  fi
  if [[ $list == nothing ]]; then return; fi
  mapfile -t COMPREPLY < <(compgen -W "$(_upright_list "$list")" -- "$current")
  if [[ $list == files || ( $list == models && ${#COMPREPLY[@]} -eq 0 ) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
complete -F _upright upright
"""


def script(completion: Completion) -> str:
    return f"# upright tools completion bash\n{tables(completion)}\n{_DRIVER}"
