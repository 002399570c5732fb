#!/usr/bin/env bash
# Builds the site of documentation in build/docs/html, strictly: a link or name that leads nowhere fails.
# PYTHON=python3.12 picks the interpreter. Needs neither TensorFlow nor a build.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

# Its name tells the interpreter, so that another PYTHON= makes another .venv-docs.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
stamp=.venv-docs/installed-$version-$(sha256sum docs/requirements.txt | cut -c1-16)
if [ ! -e "$stamp" ]; then
  # Debian's Python leaves ensurepip, without which there is no venv, to another package.
  "$python" -c 'import ensurepip' 2>/dev/null || tools/apt_install.sh "python$version-venv"
  "$python" -m venv --clear .venv-docs
  .venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r docs/requirements.txt
  touch "$stamp"
fi

.venv-docs/bin/python -m docs._site.tree build/docs/source
# All of it anew, so that what is gone from the sources is gone from the site.
rm -rf build/docs/html
.venv-docs/bin/python -m sphinx -W --keep-going -n -q -b html -d build/docs/doctrees build/docs/source build/docs/html
echo "The site is in build/docs/html/index.html"
