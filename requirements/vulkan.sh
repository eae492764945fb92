#!/usr/bin/env bash
# A Vulkan driver for ManiSkill, which needs one even for state observations.
#
#   requirements/vulkan.sh
#
# With a driver of a graphics card nothing is done. Without one, Mesa's software driver (lavapipe)
# is installed as root with apt; otherwise the commands are printed. Debian 12 gets it from its
# backports: its own version lacks what SAPIEN asks of a device. Never fails: the other simulators
# work without.
set -euo pipefail

NEEDED=24 # the major version of Mesa; 22.3 is rejected, 25.0 is what this was tested with
PACKAGES=(mesa-vulkan-drivers libvulkan1)

say() { printf 'vulkan: %s\n' "$*"; }

has_card() {
  # the driver registers itself, or a container brings only its library
  ls /usr/share/vulkan/icd.d/nvidia*.json /etc/vulkan/icd.d/nvidia*.json >/dev/null 2>&1 && return 0
  { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null; } | grep -q libGLX_nvidia.so.0
}

installed() {
  local version package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || return 1
  done
  version=$(dpkg-query -W -f '${Version}' "${PACKAGES[0]}")
  dpkg --compare-versions "$version" ge "$NEEDED"
}

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
  if [ -n "$source" ]; then echo "$source" >"$backports"; fi
  apt-get update -qq || true # an outdated list may do
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${release[@]}" "${PACKAGES[@]}" >/dev/null
}

[ "$(uname)" = Linux ] || exit 0
has_card && exit 0
if ! command -v apt-get >/dev/null; then
  say "ManiSkill needs a Vulkan driver: install Mesa's (lavapipe), version $NEEDED or newer" >&2
  exit 0
fi
installed && exit 0
find_release
if [ "$(id -u)" = 0 ]; then
  say "installing ${PACKAGES[*]}"
  if install; then exit 0; fi
fi
{
  say "ManiSkill can't run without a Vulkan driver; as root:"
  [ -z "$source" ] || say "  echo '$source' > $backports"
  say "  apt-get update && apt-get install -y ${release[*]} ${PACKAGES[*]}"
} >&2
