#!/usr/bin/env bash
# Tests the wheel for 64-bit Arm in dist/ under emulation, with a Python and a TensorFlow for that machine: ops against
# plain NumPy loops, accelerate(), a step of training. TENSORFLOW=2.16 takes another one. Arguments go to pytest. Ends with
# 69 if there are no tools.
set -euo pipefail

tensorflow=${TENSORFLOW:-2.21}
has_tools() { command -v qemu-aarch64 >/dev/null && command -v debootstrap >/dev/null; }
. tools/install_or_skip.sh
install_or_skip "The wheel for Arm is tested with an emulator, in a tree of Debian's packages" qemu-user debootstrap

folder=$PWD/build/matrix/aarch64
root=$folder/root
site=$folder/$tensorflow
wheel=$(ls dist/*_aarch64.whl)

# Debian's Python for Arm. Nothing of the tree needs to run for it to be made.
if [ ! -e "$root/made" ]; then
  rm -rf "$root"
  mkdir -p "$folder"
  debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,python3-distutils,libstdc++6 bookworm "$root" >/dev/null
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
  touch "$root/made"
fi

# pip of this machine, for the other: --platform takes names one by one, from the oldest glibc on.
platforms=()
for glibc in 17 24 26 27 28; do platforms+=("--platform=manylinux_2_${glibc}_aarch64"); done
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --python-version=3.11
  "${platforms[@]}" --platform=manylinux2014_aarch64 --target)
if [ ! -e "$site/made" ]; then
  rm -rf "$site"
  "${pip[@]}" "$site" "tensorflow==$tensorflow.*" pytest
  touch "$site/made"
fi
rm -rf "$folder/wheel"
"${pip[@]}" "$folder/wheel" --no-deps "$wheel"

# Not the package of this folder: a copy of the tests alone.
rm -rf "$folder/tree"
mkdir "$folder/tree"
cp -r tests pyproject.toml "$folder/tree"
cd "$folder/tree"
python=(env "PYTHONPATH=$folder/wheel:$site" TF_CPP_MIN_LOG_LEVEL=2 qemu-aarch64 -L "$root" "$root/usr/bin/python3.11")

"${python[@]}" - <<'END'
import keras, platform, tensorflow as tf, tf_cudnn_rnn
from tf_cudnn_rnn.keras import GRU, LSTM
print(platform.machine(), tf.__version__, keras.__version__, tf_cudnn_rnn.instruction_set(), flush=True)
model = keras.Sequential([keras.Input((10, 4)), LSTM(8, return_sequences=True), GRU(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = tf.random.normal([32, 10, 4], seed=1), tf.ones([32, 1])
losses = model.fit(x, y, epochs=3, verbose=0).history["loss"]
print("losses", losses, flush=True)
assert losses[0] > losses[-1]
END

# Those that start other processes need an emulator that the kernel knows.
"${python[@]}" -m pytest -q -p no:cacheprovider -o filterwarnings=default tests/python/kernels_test.py \
  tests/keras/accelerate_test.py -k "not grid and not large and not lesser_instruction_sets" "$@"
