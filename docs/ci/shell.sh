#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One CI job in a plain shell: tune what wayfinder.yaml names, then hold the engines against promoted baselines.
#
#   docs/ci/shell.sh [REPOSITORY] [options of tune]
#
# WAYFINDER   the program (default: wayfinder)
# MACHINE     the manifest's section (default: the first that matches this machine)
# BASELINES   folder with NAME.baseline.json (default: perf)
set -uo pipefail
cd "${1:-.}" || exit 2
shift || true
wayfinder=${WAYFINDER:-wayfinder}
store=${STORE:-wayfinder-store}

"$wayfinder" tune --manifest wayfinder.yaml ${MACHINE:+--machine "$MACHINE"} "$@"
status=$?
[[ -f $store/summary.md ]] && cat "$store/summary.md"
# 3: a target was missed, but every engine is there to be compared.
[[ $status -eq 0 || $status -eq 3 ]] || exit "$status"

for baseline in "${BASELINES:-perf}"/*.baseline.json; do
    [[ -e $baseline ]] || continue # none promoted yet: the first run passes
    name=$(basename "$baseline" .baseline.json)
    for engine in "$store"/*/"${name%.wfe}".wfe; do
        "$wayfinder" gate "$engine" --baseline "$baseline" --min-effect 2%
        gate=$?
        # A regression (5) counts more than noise (6).
        [[ $gate -ne 0 && $status -ne 5 ]] && status=$gate
    done
done
exit "$status"
