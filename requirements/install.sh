#!/usr/bin/env bash
# Make the virtual environment .venv with rlcore, its plugins and the test tools, editable.
#
#   requirements/install.sh [VENV]
#
# Packages of the system that simulators and Python need are installed with apt-get, by root or with
# sudo where it asks for no password, and said before; INSTALL_SYSTEM=no leaves the system alone.
# PYTHON=... chooses the interpreter; pip's own variables (PIP_INDEX_URL, ...) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv}

say() { printf 'install: %s\n' "$*"; }

# shellcheck source=requirements/apt.sh
. requirements/apt.sh

has_library() {
  { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null; } | grep -q "$1"
}

# -- GL: MuJoCo renders through EGL, or through OSMesa where EGL is missing ----------------------
install_gl() {
  [ "$(uname)" = Linux ] || return 0
  local missing=()
  if command -v dpkg-query >/dev/null; then
    local package
    for package in libegl1 libgl1-mesa-dri; do
      dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' \
        || missing+=("$package")
    done
    # a driver installed by hand (containers with GPUs) counts too
    if has_library libEGL_nvidia.so && has_library libEGL.so.1; then missing=(); fi
  else
    has_library libEGL.so.1 || missing=(libegl1 libgl1-mesa-dri)
  fi
  [ ${#missing[@]} = 0 ] && return 0
  if may_install; then
    if apt_install "${missing[@]}"; then
      # newer systems no longer ship it; EGL is enough
      apt_install libosmesa6 2>/dev/null || true
      return 0
    fi
  fi
  has_library libOSMesa.so && return 0
  say "simulators can't render without ${missing[*]}: apt-get install -y ${missing[*]}" >&2
}

pip_install() {
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}

install_gl
bash requirements/vulkan.sh
bash requirements/venv.sh "$venv"
say "torch (a large download the first time)"
pip_install -r requirements/torch.txt
say "rlcore, plugins and tools"
pip_install -r requirements/build.txt
pip_install --no-build-isolation -r requirements/install.txt -r requirements/dev.txt
say "done: source $venv/bin/activate"
