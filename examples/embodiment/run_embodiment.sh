#!/usr/bin/env bash
# bash examples/embodiment/run_embodiment.sh CONFIG [key=value ...]    (= rlcore train CONFIG ...)
# CONFIG: a recipe, by its name or by its file in examples/embodiment/config/
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
PATH="$root/.venv/bin:$PATH"
if [[ $# -eq 0 ]]; then
  echo "usage: bash $0 CONFIG [key=value ...]" >&2
  exit 2
fi
exec rlcore train "$@"
