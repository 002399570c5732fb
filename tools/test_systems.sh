#!/usr/bin/env bash
# Installs the wheel of dist/ on other releases of Debian, in trees without a compiler, and runs README's first program
# there: test_systems.sh [bullseye|bookworm|trixie...]. Debian 11 has glibc and libstdc++ as old as Ubuntu 20.04's, but no
# Python that is new enough: there the library alone is loaded, into a TensorFlow of that Python. MIRROR=URL takes Debian's
# packages from there, not from where debootstrap does. Needs root. Ends with 69 if there are no tools.
set -euo pipefail

has_tools() { command -v debootstrap >/dev/null && [ "$(id -u)" = 0 ]; }
. tools/install_or_skip.sh
install_or_skip "Other systems are tested by root, in trees that debootstrap makes" debootstrap

# There is no tensorflow-cpu for Arm.
distribution=tensorflow-cpu
[ "$(uname -m)" != aarch64 ] || distribution=tensorflow
wheel=$(ls dist/*_"$(uname -m)".whl)
folder=$PWD/build/systems
mkdir -p "$folder"
releases=("$@")
((${#releases[@]})) || releases=(bookworm trixie bullseye)

# A model as a program for GPUs writes it.
TF_CPP_MIN_LOG_LEVEL=3 .venv/bin/python examples/gpu_saved_model_writer.py "$folder/exported_on_a_gpu"

mounted=
trap '[ -z "$mounted" ] || umount "$mounted"' EXIT
for name in "${releases[@]}"; do
  root=$folder/$name
  if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$name" "$root" ${MIRROR:+"$MIRROR"} >/dev/null
    touch "$root/made"
  fi
  rm -rf "$root/test"
  mkdir "$root/test"
  cp -r "$wheel" "$folder/exported_on_a_gpu" "$root/test"
  cp /etc/resolv.conf "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mount --bind /proc "$root/proc"
  mounted=$root/proc
  status=0
  # shellcheck disable=SC2016  # the shell in the tree expands it
  chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root TF_CPP_MIN_LOG_LEVEL=3 DISTRIBUTION="$distribution" \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -euc '
      cd /test
      echo "== Debian $(cat /etc/debian_version), $(ldd --version | head -n 1)"
      if command -v cc || command -v gcc || command -v g++; then echo "There is a compiler." >&2; exit 1; fi
      python3 -m venv venv
      venv/bin/pip install -q --upgrade pip
      if python3 -c "import sys; sys.exit(sys.version_info < (3, 10))"; then
        venv/bin/pip install -q "$DISTRIBUTION==2.21.*"
        time venv/bin/pip install -q *.whl
        venv/bin/pip check
        load="import tf_cudnn_rnn"
      else
        venv/bin/pip install -q "$DISTRIBUTION==2.20.*"
        python3 -m zipfile -e *.whl .
        load="tf.load_op_library(\"/test/tf_cudnn_rnn/_libraries/tensorflow_2_20.so\")"
      fi
      time venv/bin/python -c "
import tensorflow as tf
$load
model = tf.saved_model.load(\"exported_on_a_gpu\")
logits = model.signatures[\"serving_default\"](frames=tf.zeros([8, 20, 8]), lengths=tf.fill([8], 20))[\"logits\"]
print(tf.__version__, logits.shape)"' || status=$?
  umount "$root/proc"
  mounted=
  ((status == 0)) || exit "$status"
done
