# Completion of rlcore: the words of what was installed when `rlcore completion` printed this.
_rlcore_flags() {
  case "$1" in
    @FLAGS@
  esac
}

_rlcore() {
  local line="${COMP_LINE:0:COMP_POINT}"
  local word="${line##* }" command found
  set -f
  local given=($line)
  set +f
  command="${given[1]:-}"
  if [[ "$line" != *" "*" "* ]]; then
    found="@COMMANDS@"
  elif [[ "$word" == -* ]]; then
    found="$(_rlcore_flags "$command")"
  elif [[ "$command" == help ]]; then
    found="@COMMANDS@"
  elif [[ "$command" == plugins ]]; then
    found="@NAMES@ @RECIPES@"
  else
    found="@RECIPES@ @WORDS@"
  fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
  if [[ " @FOLDERS@ " == *" $command "* && "$word" != *=* && "$word" != -* ]]; then
    COMPREPLY+=($(compgen -d -- "$word"))
  fi
  if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
  if [[ "$word" == *=* ]]; then  # the shell completes what stands behind the sign
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
}
complete -F _rlcore rlcore
