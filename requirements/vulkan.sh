#!/usr/bin/env bash
# A Vulkan driver for ManiSkill, which needs one even for state observations.
#
#   requirements/vulkan.sh
#
# With a driver of a graphics card nothing is done. Without one, Mesa's software driver (lavapipe)
# is installed with apt by root, or with sudo where it asks for no password; otherwise the commands
# are printed. INSTALL_SYSTEM=no leaves the system alone. Debian 12 gets it from its backports: its
# own version lacks what SAPIEN asks of a device. Never fails: the other simulators work without.
set -euo pipefail
# shellcheck source=requirements/apt.sh
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

NEEDED=24 # the major version of Mesa; 22.3 is rejected, 25.0 is what this was tested with
PACKAGES=(mesa-vulkan-drivers libvulkan1)

say() { printf 'vulkan: %s\n' "$*"; }

has_card() {
  # the driver registers itself, or a container brings only its library
  ls /usr/share/vulkan/icd.d/nvidia*.json /etc/vulkan/icd.d/nvidia*.json >/dev/null 2>&1 && return 0
  has_library libGLX_nvidia.so.0
}

installed() {
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || return 1
  done
}
version() { dpkg-query -W -f '${Version}' "${PACKAGES[0]}"; }
recent() { installed && dpkg --compare-versions "$(version)" ge "$NEEDED"; }

# What apt needs of this system: the release to install from, and its line of sources.
release=() source=
backports=/etc/apt/sources.list.d/rlcore-backports.list
find_release() {
  local codename uri
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [ "$codename" = bookworm ] || return 0
  release=(-t bookworm-backports)
  apt-get indextargets --format '$(CODENAME)' 'Created-By: Packages' 2>/dev/null \
    | grep -qx bookworm-backports && return 0
  # from the mirror this machine already uses
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' \
    2>/dev/null | head -n 1 || true)
  source="deb ${uri:-http://deb.debian.org/debian} bookworm-backports main"
}

install() {
  if [ -n "$source" ]; then
    say "as root: echo '$source' > $backports (INSTALL_SYSTEM=no skips this)"
    echo "$source" | as_root tee "$backports" >/dev/null || return 1
  fi
  apt_install "${release[@]}" "${PACKAGES[@]}" && return 0
  # a mirror without backports: left there, the list would fail every update from now on
  as_root rm -f "$backports"
  return 1
}

[ "$(uname)" = Linux ] || exit 0
has_card && exit 0
if ! command -v apt-get >/dev/null; then
  say "ManiSkill needs a Vulkan driver: install Mesa's (lavapipe), version $NEEDED or newer" >&2
  exit 0
fi
recent && exit 0
find_release
if may_install; then
  if install; then
    recent && exit 0
    say "ManiSkill needs Mesa $NEEDED or newer, this system offers $(version): take the packages" \
      "of a newer release of it, or the driver of a graphics card" >&2
    exit 0
  fi
  say "apt-get could not install them ${release[*]:+from ${release[1]} }(see above)" >&2
fi
{
  say "ManiSkill can't run without a Vulkan driver; as root:"
  [ -z "$source" ] || say "  echo '$source' > $backports"
  say "  apt-get update && apt-get install -y ${release[*]} ${PACKAGES[*]}"
} >&2
