#!/usr/bin/env bash
# venv.sh PYTHON STAMP: makes .venv with PYTHON, installs requirements*.txt, then touches STAMP.
set -euo pipefail
python=$1 stamp=$2

if ! command -v "$python" >/dev/null; then
  echo "There is no $python here: name a Python 3.10 to 3.13 with PYTHON=..." >&2
  exit 1
fi
# In an activated .venv, `python3` is that of .venv, which must not remake itself.
python=$("$python" -c 'import sys; print(sys._base_executable)')

version=$("$python" -c 'import platform; print(platform.python_version())')
if [ "$(.venv/bin/python -c 'import pip, platform; print(platform.python_version())' 2>&1)" != "$version" ]; then
  # Debian's Python leaves ensurepip, without which there is no venv, to another package.
  "$python" -c 'import ensurepip' 2>/dev/null || tools/apt_install.sh "python${version%.*}-venv"
  "$python" -m venv --clear .venv
fi

if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt; then
  echo "requirements.txt did not install into .venv; TensorFlow 2.21 needs Python 3.10 to 3.13, this is $version." >&2
  exit 1
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-no-deps.txt

# Makes the package importable in .venv from any folder, as an editable install would.
pwd >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tf_cudnn_rnn.pth"
touch "$stamp"
