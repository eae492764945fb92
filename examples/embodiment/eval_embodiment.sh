#!/usr/bin/env bash
# bash examples/embodiment/eval_embodiment.sh CONFIG [key=value ...]    (= rlcore eval CONFIG ...)
# CONFIG: a recipe, by its name or by its file in examples/embodiment/config/, or the folder of a run
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
PATH="$root/.venv/bin:$PATH"
if [[ $# -eq 0 ]]; then
  echo "usage: bash $0 CONFIG [key=value ...]" >&2
  exit 2
fi
exec rlcore eval "$@"
