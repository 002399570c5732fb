#!/usr/bin/env bash
# apt_install.sh PACKAGE...: installs Debian packages where it may, otherwise says how and fails.
set -euo pipefail

if command -v apt-get >/dev/null; then
  if [ "$(id -u)" = 0 ]; then
    sudo=
  elif sudo -n true 2>/dev/null; then
    sudo="sudo -n"
  fi
fi
if [ -z "${sudo+set}" ]; then
  echo "Not installed: $1. Run: sudo apt-get install -y $*" >&2
  exit 1
fi

echo "Installing $* (apt-get)" >&2
export DEBIAN_FRONTEND=noninteractive
{
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "$@"
} </dev/null >&2
