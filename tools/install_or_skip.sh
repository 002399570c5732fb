# shellcheck shell=bash
# Sourced by scripts whose tools not everybody has.

# install_or_skip NEED PACKAGE...: where has_tools, a function of the script, says no, installs Debian's packages if it
# may. If there are still no tools, ends the script with 69.
install_or_skip() {
  local need=$1
  shift
  has_tools || tools/apt_install.sh "$@" >&2 || true
  has_tools && return
  echo "$need: apt-get install $*" >&2
  exit 69
}
