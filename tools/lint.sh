#!/usr/bin/env bash
# lint.sh check|fix: formatting of C++, Python and Bazel files, and ruff's lints.
set -euo pipefail

case $1 in
  check)
    clang_format=(--dry-run -Werror)
    ruff_check=() ruff_format=(--check)
    buildifier=(-mode=check)
    ;;
  fix)
    clang_format=(-i)
    ruff_check=(--fix) ruff_format=()
    buildifier=(-mode=fix)
    ;;
esac

# Files that git knows or would add, without those deleted but not yet committed.
files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
}

status=0
files '*.cc' '*.h' '*.c' | xargs -0r .venv/bin/clang-format "${clang_format[@]}" || status=1
.venv/bin/ruff check "${ruff_check[@]}" || status=1
.venv/bin/ruff format "${ruff_format[@]}" || status=1

# buildifier comes from npm, and npm is not everywhere.
version=8.2.1
if [ ! -e .npm/buildifier-$version ] && command -v npm >/dev/null; then
  npm install --silent --no-save --no-audit --no-fund --prefix .npm "@bazel/buildifier@$version" \
    >/dev/null 2>&1 </dev/null && touch .npm/buildifier-$version
fi
if [ -e .npm/buildifier-$version ]; then
  files BUILD '*/BUILD' WORKSPACE '*/WORKSPACE' '*.bzl' |
    xargs -0r .npm/node_modules/.bin/buildifier "${buildifier[@]}" || status=1
else
  echo "Skipping buildifier: it could not be had from npm."
fi
exit $status
