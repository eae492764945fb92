#!/usr/bin/env bash
# Make the virtual environment .venv with rlcore and its plugins, editable.
#
#   requirements/install.sh                                      everything, and the test tools
#   requirements/install.sh embodied --model MODEL --env ENV     what this model and env need
#
# --model and --env may be given several times; `embodied` may be left out.
#   --venv FOLDER   another folder than .venv
#   --use-mirror    take packages from PIP_INDEX_URL, or if it is not set from a mirror in mainland
#                   China (docs/china.md)
#   --dry-run       say what would be done, and do nothing
#
# Packages of the system that simulators and Python need are installed with apt-get, by root or with
# sudo where it asks for no password, and said before; INSTALL_SYSTEM=no leaves the system alone.
# PYTHON=... chooses the interpreter; pip's own variables (PIP_INDEX_URL, ...) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=.venv
models=() envs=() mirror= dry=

MIRROR=https://pypi.tuna.tsinghua.edu.cn/simple
HUB_MIRROR=https://hf-mirror.com

say() { printf 'install: %s\n' "$*"; }
die() {
  printf 'install: %s\n' "$1" >&2
  [ -z "${2:-}" ] || printf '  hint: %s\n' "$2" >&2
  exit 2
}

# -- words: all are read before anything is made ---------------------------------------------------
# The models or envs that are extras of rlcore, one a line.
extras() { grep -o "rlcore-$1-[a-z0-9-]*" pyproject.toml | sed "s/rlcore-$1-//" | sort -u; }
listed() { extras "$1" | paste -sd ' '; }
known() { extras "$1" | grep -qx -- "$2"; }
plain() { printf %s "$1" | tr 'A-Z_' 'a-z-'; }

add_model() {
  local name
  name=$(plain "$1")
  known model "$name" || die "there is no model '$1'; choose from: $(listed model)"
  models+=("$name")
}
add_env() { # several may be joined, as in maniskill_libero
  local name part
  name=$(plain "$1")
  if known env "$name"; then envs+=("$name"); return; fi
  for part in ${name//-/ }; do
    known env "$part" || die "there is no env '$part'$([ "$part" = "$name" ] || echo " (of $1)");"` \
      `" choose from: $(listed env)" "--env NAME, once for each"
    envs+=("$part")
  done
}

while [ $# -gt 0 ]; do
  case $1 in
    embodied) shift ;;
    --model | --env | --venv)
      [ -n "${2:-}" ] || die "$1 needs a name behind it"
      case $1 in
        --model) add_model "$2" ;;
        --env) add_env "$2" ;;
        --venv) venv=$2 ;;
      esac
      shift 2
      ;;
    --use-mirror) mirror=yes; shift ;;
    --dry-run) dry=yes; shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$PWD/requirements/install.sh"; exit ;;
    -*) die "unknown option '$1'; choose from: --model --env --venv --use-mirror --dry-run" ;;
    *) die "unknown word '$1'" "--venv $1 makes the environment in that folder" ;;
  esac
done
chosen=(${envs[@]+"${envs[@]}"} ${models[@]+"${models[@]}"})

if [ -n "$mirror" ]; then
  export PIP_INDEX_URL=${PIP_INDEX_URL:-$MIRROR}
  say "packages from $PIP_INDEX_URL"
fi
run() { if [ -n "$dry" ]; then say "would run: $*"; else "$@"; fi; }

# shellcheck source=requirements/apt.sh
. requirements/apt.sh

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

# -- what packages from pip are linked with and don't bring: SAPIEN with X; OpenCV, which LIBERO,
# ManiSkill and RoboTwin ask for, with X, GL and GLib (rlcore/plugins/system_libraries.py) -----------------------
LIBRARIES=(
  libX11.so.6=libx11-6
  libGL.so.1=libgl1
  libSM.so.6=libsm6
  libXext.so.6=libxext6
  libglib-2.0.so.0=libglib2.0-0
)
install_libraries() {
  [ "$(uname)" = Linux ] || return 0
  local missing=() pair
  for pair in "${LIBRARIES[@]}"; do
    has_library "${pair%%=*}" || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} = 0 ] && return 0
  if may_install && apt_install "${missing[@]}"; then return 0; fi
  say "simulators can't start without ${missing[*]}: apt-get install -y ${missing[*]}" >&2
}

# -- what pip gets ----------------------------------------------------------------------------
pip_install() {
  run "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}
if [ ${#chosen[@]} = 0 ]; then
  wanted=(-r requirements/install.txt -r requirements/dev.txt)
  places=$(cat requirements/install.txt)
else
  python=python3
  [ -n "$dry" ] || bash requirements/venv.sh "$venv"
  [ ! -x "$venv/bin/python" ] || python=$venv/bin/python
  places=$("$python" requirements/projects.py "${chosen[@]}")
  # shellcheck disable=SC2206  # one word each
  wanted=(-c requirements/torch.txt $places)
fi

if [[ $places == *envs/mujoco* ]]; then run install_gl; fi
if [[ $places == *envs/sapien* || $places == *envs/libero* ]]; then run install_libraries; fi
if [[ $places == *envs/sapien* ]]; then run bash requirements/vulkan.sh; fi
run bash requirements/venv.sh "$venv"
if [[ ${#chosen[@]} != 0 && $places == *envs/metaworld* ]]; then
  # the sentences of published checkpoints are a file in it (docs/sentences.md); it is not imported
  pip_install --no-deps lerobot==0.4.4 \
    || say "sentences of published checkpoints: $venv/bin/python -m pip install --no-deps lerobot" >&2
fi
say "torch (a large download the first time)"
pip_install -r requirements/torch.txt
say "rlcore, plugins and tools"
pip_install -r requirements/build.txt
pip_install --no-build-isolation "${wanted[@]}"
if [[ $places == *envs/libero* ]]; then # what pip can't install with its requirements
  run "$venv/bin/rlcore" install-libero \
    || say "tasks of LIBERO need its own code and assets: $venv/bin/rlcore install-libero" >&2
fi
if [[ ${#chosen[@]} != 0 && $places == *envs/robotwin* ]]; then # asked for by name
  run "$venv/bin/rlcore" venv create robotwin \
    || say "RoboTwin's simulators need an environment of their own: $venv/bin/rlcore venv create robotwin" >&2
fi
run cp requirements/switch_env "$venv/bin/switch_env"
[ -z "$mirror" ] || say "for downloads from the hub: export HF_ENDPOINT=$HUB_MIRROR"
say "${dry:+when }done: source $venv/bin/activate"
