#!/usr/bin/env bash
# engine_benchmark_test.sh PROGRAM: runs each benchmark once, but those of large cases. None may be missing, none may
# fail, and every rate must be a number above zero.
set -euo pipefail

program=$1
flags=(--max_flops=3e8 --benchmark_min_time=0)
"$program" "${flags[@]}" --benchmark_list_tests | sort >"$TEST_TMPDIR/listed"
"$program" "${flags[@]}" --benchmark_format=json >"$TEST_TMPDIR/results"
sed -n 's/^ *"name": "\([^"]*\)",$/\1/p' "$TEST_TMPDIR/results" | sort >"$TEST_TMPDIR/run"

fail() {
  echo "$1" >&2
  exit 1
}
diff "$TEST_TMPDIR/listed" "$TEST_TMPDIR/run" || fail "Not all benchmarks ran: see above."
for kind in Peak/multiply_add Bandwidth/dram Kernel/multiply_panel Kernel/cell_backward Engine/lstm_512_b1/training; do
  grep -q "^$kind/" "$TEST_TMPDIR/run" || fail "There is no benchmark $kind."
done
# A rate of zero reads 0.0000000000000000e+00.
if grep -E 'error_occurred|"(name|[a-z_]*per_second|share_of_peak)": *(-|0\.0*e|NaN|Inf)' "$TEST_TMPDIR/results"; then
  fail "Benchmarks failed, or tell impossible rates: see above."
fi
rates=$(grep -c 'per_second' "$TEST_TMPDIR/results")
[ "$rates" = "$(wc -l <"$TEST_TMPDIR/run")" ] || fail "Not each benchmark tells one rate."
if "$program" --max_flops=many >/dev/null 2>"$TEST_TMPDIR/errors"; then fail "--max_flops=many was taken."; fi
# shellcheck disable=SC2016  # names in quotes of the message
grep -q '`max_flops` must be a number; got "many"' "$TEST_TMPDIR/errors" || fail "$(<"$TEST_TMPDIR/errors")"
if "$program" --threads=0 >/dev/null 2>"$TEST_TMPDIR/errors"; then fail "--threads=0 was taken."; fi
# shellcheck disable=SC2016
grep -q '`threads` must be a number from 1 to 1024; got "0"' "$TEST_TMPDIR/errors" || fail "$(<"$TEST_TMPDIR/errors")"
"$program" --threads=3 --benchmark_list_tests | sed -n 's/.*threads:\([0-9]*\).*/\1/p' | sort -u >"$TEST_TMPDIR/threads"
[ "$(paste -sd' ' "$TEST_TMPDIR/threads")" = "1 3" ] || fail "--threads=3 has other numbers: $(<"$TEST_TMPDIR/threads")"
if "$program" --cases=missing.csv >/dev/null 2>"$TEST_TMPDIR/errors"; then fail "missing.csv was read."; fi
grep -q 'missing.csv: cannot be read' "$TEST_TMPDIR/errors" || fail "$(<"$TEST_TMPDIR/errors")"
if TF_CUDNN_RNN_MACHINE=cores=2 "$program" >/dev/null 2>"$TEST_TMPDIR/errors"; then fail "cores=2 was taken."; fi
grep -q 'TF_CUDNN_RNN_MACHINE must be' "$TEST_TMPDIR/errors" || fail "$(<"$TEST_TMPDIR/errors")"
