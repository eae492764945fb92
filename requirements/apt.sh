# Sourced by the scripts beside it: system packages, where this user may install them.
#
# INSTALL_SYSTEM=no leaves the system alone: what it lacks is named, with the command.

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
