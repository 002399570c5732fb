#!/usr/bin/env bash
# lost_routes.sh ISA LOG: prints the routes that tests/fuzz/engine/routes.txt has for this instruction set, and that the fuzz
# target `engine`, whose output is in LOG, did not take. Exits with 1 if there are any.
set -euo pipefail
isa=$1
taken=$(sed -n "s/^route $isa \(.*\): [0-9]*\$/\1/p" "$2")
status=0
while read -r of route; do
  [[ $of = all || $of = "$isa" ]] || continue
  if ! grep -qxF "$route" <<<"$taken"; then
    echo "LOST on $isa: no call took the route $route."
    status=1
  fi
done <"$(dirname "$0")/../tests/fuzz/engine/routes.txt"
exit $status
