# Sourced by the scripts beside it: what the system has, and packages where this user may install them.
#
# INSTALL_SYSTEM=no leaves the system alone: what it lacks is named, with the command.

# Whether the system's linker knows a library. grep reads all of the list: with -q it would end
# first, and pipefail counts that as a failure of ldconfig.
has_library() {
  { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null; } | grep -F -- "$1" >/dev/null
}
# Run a command as root; fails where that would have to ask for a password.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
may_install() {
  [ "${INSTALL_SYSTEM:-yes}" != no ] || return 1
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}
# Said before anything is done as root.
announce_apt() {
  say "as root: apt-get update && apt-get install -y $* (INSTALL_SYSTEM=no skips this)"
}
apt_install() {
  announce_apt "$@"
  as_root apt-get update -qq || true # an outdated list may do
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
