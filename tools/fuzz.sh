#!/usr/bin/env bash
# fuzz.sh SECONDS [CONFIG]: lets libFuzzer look for inputs that break the engine, for so long in all, with as many targets
# at a time as there are cores; then fuzzes files of weights and op calls. The engine and what it packs run on each
# instruction set of this machine. With CONFIG, such as emulated_amx, nothing else runs, and they run on the best one alone
# that there is then. What is found lies in runs/fuzz; new inputs that go new ways in build/fuzz/corpus. A route of the plan
# that no call took, though tests/fuzz/engine/routes.txt has it, is a failure, too.
# MUTATIONS=10000 makes so many of each golden file, however long that takes; otherwise as many as there is time for.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=$1
config=${2:-}
cores=$(nproc)
logs=build/fuzz/logs
findings=runs/fuzz
python_fuzzers=()
other_targets=()
cpp_seconds=$seconds
status=0
if [[ -z $config ]]; then
  python_fuzzers=(files ops runtime)
  other_targets=(conversions descriptor layouts runtime_calls sequences weights_header)
  # A fifth of the time is for each of those in Python.
  cpp_seconds=$((seconds * 2 / 5))
  if ! .venv/bin/python -m pip install --quiet --requirement tests/fuzz/requirements.txt; then
    echo "atheris (tests/fuzz/requirements.txt) cannot be installed: of files, mutations alone are read."
    status=1
  fi
fi

tools/build_fuzz.sh libfuzzer "$config" || exit
bin=build/fuzz/libfuzzer${config:+-$config}
mapfile -t isas < <("$bin/isas")
[[ -z $config ]] || isas=("${isas[0]}")
mkdir -p "$findings"
rm -rf "$logs"
mkdir -p "$logs"

# target, instruction set, share of the time. What an instruction set does not decide runs on the best one.
jobs=()
total=0
add() {
  jobs+=("$1 $2 $3")
  total=$((total + $3))
}
for isa in "${isas[@]}"; do
  add engine "$isa" 6
  add packing "$isa" 2
done
for target in "${other_targets[@]}"; do add "$target" "${isas[0]}" 1; done

fuzz() {  # target, instruction set, seconds
  local new=build/fuzz/corpus/$1 kept=tests/fuzz/engine/corpus/$1 max_len=256
  [[ $1 != weights_header ]] || max_len=512  # texts
  mkdir -p "$new" "$kept"
  TF_CUDNN_RNN_ISA=$2 nice -n 5 "$bin/$1" -max_total_time="$3" -timeout=60 -report_slow_units=60 -rss_limit_mb=4096 -max_len="$max_len" \
    -len_control=0 -entropic=0 -print_final_stats=1 -artifact_prefix="$findings/$1-$2-" "$new" "$kept" \
    >"$logs/$1-$2" 2>&1
}
echo "Fuzzing on $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), ${cores} cores, ${isas[*]}, $(date -I)"
pids=()
for job in "${jobs[@]}"; do
  read -r target isa share <<<"$job"
  while (($(jobs -rp | wc -l) >= cores)); do wait -n; done
  fuzz "$target" "$isa" $((cpp_seconds * cores * share / total + 1)) &
  pids+=($!)
done
for i in "${!pids[@]}"; do
  read -r target isa _ <<<"${jobs[$i]}"
  if wait "${pids[$i]}"; then
    [[ $target != engine ]] || tools/lost_routes.sh "$isa" "$logs/$target-$isa" || status=1
    continue
  fi
  echo "FOUND by $target on $isa; the input lies in $findings:"
  tail -n 40 "$logs/$target-$isa"
  status=1
done
for job in "${jobs[@]}"; do
  read -r target isa _ <<<"$job"
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target-$isa")
  echo "$target $isa: ${executions:-0} executions"
done
echo "in all: $(cat "$logs"/* | sed -n 's/^stat::number_of_executed_units: *//p' | awk '{ sum += $1 } END { print sum }')"
sed -n 's/^route //p' "$logs"/engine-* | sort
for name in "${python_fuzzers[@]}"; do
  options=(--seconds $((seconds / 5)))
  if [[ $name = files && -n ${MUTATIONS:-} ]]; then
    .venv/bin/python -m tests.fuzz.files --mutations="$MUTATIONS" || status=1
  elif [[ $name = files ]]; then
    options+=(--mutations=10000)
  fi
  .venv/bin/python -m "tests.fuzz.$name" "${options[@]}" || status=1
done
exit $status
