#!/usr/bin/env bash
# build_fuzz.sh libfuzzer|memory [CONFIG]: compiles the engine's fuzz targets with Clang into build/fuzz/KIND[-CONFIG].
#   libfuzzer  with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, but for micro-kernels, and with small
#              thresholds, so that small calls take every route
#   memory     with MemorySanitizer, a plain main() and the thresholds as they are
# Micro-kernels are those of bazel build --config=CONFIG, such as emulated_amx.
# Bazel would need a second toolchain for it. Ends with 69 if there is no Clang.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
config=${2:-}
engine_flags=()

find_clang() {
  local name
  for name in clang++ $(compgen -c clang++- | sort -t- -k2 -rn); do
    if echo 'int main() {}' | "$name" -fsanitize=memory -x c++ - -o /dev/null 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  return 1
}
compiler=$(find_clang || { tools/apt_install.sh clang libclang-rt-dev >&2 && find_clang; }) || {
  echo "This needs Clang and its sanitizers: apt-get install clang libclang-rt-dev" >&2
  exit 69
}

out=build/fuzz/$kind${config:+-$config}
mkdir -p "$out"
flags=(-std=c++17 -g1 -fno-omit-frame-pointer -Wall -Wextra -Werror)
case $kind in
  libfuzzer)
    sanitizers=('-fsanitize=address,undefined' -fno-sanitize-recover=all)
    flags+=(-O2)
    # Without a trace of comparisons: numbers of inputs are remainders, and it would take most of the time.
    flags+=('-fsanitize-coverage=inline-8bit-counters,pc-table')
    engine_flags=("${sanitizers[@]}")
    link=("${sanitizers[@]}" -fsanitize=fuzzer)
    # The header that all others find first.
    header=kernels/engine/thresholds.h
    mkdir -p "$out/thresholds/$(dirname $header)"
    script=
    while read -r name value; do
      [[ $name != \#* ]] || continue
      grep -q " $name = [^;]*;\$" "$header" || {
        echo "$header has no $name" >&2
        exit 1
      }
      script+="s/ $name = [^;]*;\$/ $name = $value;/;"
    done <tests/fuzz/engine/small_thresholds.txt
    sed "$script" "$header" >"$out/thresholds/small"
    cmp -s "$out/thresholds/small" "$out/thresholds/$header" || cp "$out/thresholds/small" "$out/thresholds/$header"
    flags+=(-I"$out/thresholds")
    ;;
  memory)
    # Streams and strings of the standard library were not compiled with it. Strings are, here, where they assert.
    flags+=(-O1 -fsanitize=memory -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS -DRNN_UNINSTRUMENTED_STREAMS)
    link=(-fsanitize=memory)
    ;;
  *)
    echo "There is no kind $kind." >&2
    exit 2
    ;;
esac
flags+=(-I.)

# From the only place where instruction sets and their flags stand: kernels/isa.bzl, which Python can read, too.
isa_bzl() {
  python3 -c 'import sys
names = {}
exec(open("kernels/isa.bzl").read(), names)
print(*eval(sys.argv[1], names))' "$1"
}
isas="scalar $(isa_bzl "ISAS_OF_CPU.get('@platforms//cpu:$(uname -m)', [])")"

# Micro-kernels, and what chooses among them, as Bazel makes them for the library: Clang knows fewer names of CPU features.
# Guard pages watch over them.
bazel=$(tools/find_bazel.sh)
bazel_flags=(${config:+"--config=$config"})
# shellcheck disable=SC2046,SC2086  # words
"$bazel" build "${bazel_flags[@]}" //kernels/engine/simd $(printf '//kernels/engine/simd:simd_%s ' $isas)
library=$("$bazel" info "${bazel_flags[@]}" bazel-bin)/kernels/engine/simd/_objs

compile() {  # source, object, flags
  [[ $2 -nt $1 && $2 -nt tools/build_fuzz.sh && $2 -nt kernels/isa.bzl &&
    -z $(find kernels network runtime tests/engine tests/fuzz/engine "$out" \( -name '*.h' -o -name '*.inc' \) \
      -newer "$2" -print -quit) ]] || "$compiler" "${@:3}" -c "$1" -o "$2"
}

shopt -s nullglob
pids=()
jobs_at_most=$(nproc)
start() {
  while (($(jobs -rp | wc -l) >= jobs_at_most)); do wait -n || true; done
  compile "$@" &
  pids+=($!)
}
objects=("$library"/simd/*.pic.o)
all_kernels=()
for isa in $isas; do all_kernels+=("$library/simd_$isa/kernels_$isa.pic.o"); done
"$compiler" -std=c++17 -I. tests/fuzz/engine/isas_main.cc "${objects[@]}" "${all_kernels[@]}" -o "$out/isas"
# MemorySanitizer has to see all that writes: it gets kernels of its own where this machine runs them.
for isa in $isas; do
  if [ "$kind" = memory ] && "$out/isas" | grep -qx "$isa"; then
    objects+=("$out/kernels_$isa.o")
    emulated=()
    # It does not see what tile registers store.
    [[ $isa != avx512_amx ]] || emulated=('-DRNN_EMULATED_TILE_REGISTERS="tests/engine/emulated_tile_registers-inl.h"')
    # shellcheck disable=SC2046  # words
    start "kernels/engine/simd/kernels_$isa.cc" "$out/kernels_$isa.o" "${flags[@]}" \
      $(isa_bzl "_COPTS + ISA_COPTS['$isa']") -O1 "${emulated[@]}"
  else
    objects+=("$library/simd_$isa/kernels_$isa.pic.o")
  fi
done
for source in network/*.cc runtime/{network,runtime,stream,thread_pool,weights_file}.cc kernels/memory/*.cc \
  kernels/engine/{elements,passes,plan,products,threads,weights}/*.cc; do
  object=$out/$(basename "${source%.cc}").o
  objects+=("$object")
  start "$source" "$object" "${flags[@]}" "${engine_flags[@]}"
done
for source in tests/fuzz/engine/*_fuzz.cc tests/fuzz/engine/replay_main.cc tests/engine/reference_rnn.cc; do
  start "$source" "$out/$(basename "${source%.cc}").o" "${flags[@]}"
done
for pid in "${pids[@]}"; do wait "$pid"; done

for source in tests/fuzz/engine/*_fuzz.cc; do
  target=$(basename "${source%_fuzz.cc}")
  main=()
  [[ $kind = libfuzzer ]] || main=("$out/replay_main.o")
  "$compiler" "$out"/{"${target}_fuzz",reference_rnn}.o "${main[@]}" "${objects[@]}" "${link[@]}" -pthread -o "$out/$target"
done
