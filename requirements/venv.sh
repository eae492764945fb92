#!/usr/bin/env bash
# An empty virtual environment with pip; nothing is done where there is one.
#
#   requirements/venv.sh VENV
#
# Python or its venv module, where missing, come with apt-get, by root or with sudo where it asks for
# no password, and are said before; INSTALL_SYSTEM=no leaves the system alone. PYTHON=... chooses the
# interpreter.
set -euo pipefail
# shellcheck source=requirements/apt.sh
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
venv=$1

say() { printf 'install: %s\n' "$*"; }
die() { printf 'install: %s\n' "$*" >&2; exit 1; }

python=
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      python=$candidate
      return 0
    fi
  done
  return 1
}
has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

[ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1 && exit 0
if ! find_python && [ -z "${PYTHON:-}" ] && may_install; then
  apt_install python3 python3-venv || true
  find_python || true
fi
if [ -z "$python" ]; then
  [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is no Python 3.10 or newer that starts"
  die "needs Python 3.10 or newer, found none: apt-get install -y python3 python3-venv," \
    "or set PYTHON=/path/to/python3"
fi
if ! has_venv; then
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  if may_install; then
    apt_install "$package" || true
  fi
  has_venv || die "$python can't make virtual environments: apt-get install -y $package"
fi
say "$venv with $("$python" --version)"
"$python" -m venv "$venv"
