# Sourced by the scripts beside it: system packages, where this user may install them.

# Run a command as root; fails where that would have to ask for a password.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
may_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}
apt_install() {
  as_root apt-get update -qq || true # an outdated list may do
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
