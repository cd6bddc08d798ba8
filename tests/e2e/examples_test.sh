#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs of examples/ on the digits model.
set -euo pipefail
programs="$WF_TEST_BUILD_DIR/examples"
if [ ! -x "$programs/build" ]; then
    echo "SKIP examples_test: configured with -DWF_EXAMPLES=OFF" >&2
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder" XDG_CACHE_HOME="$folder/cache" XDG_STATE_HOME="$folder/state"
model="$WF_TEST_SOURCE_DIR/examples/digits/digits.onnx"
"$programs/build" "$model" "$folder/built.wfe" >"$folder/report.json"
python3 -m json.tool "$folder/report.json" >/dev/null
"$programs/tune" "$model" "$folder/tuned.wfe" 5 | tail -n 1
for engine in built tuned; do
    "$programs/run" "$folder/$engine.wfe" | tee "$folder/$engine.txt"
    # The name of the output and the scores of ten digits.
    [ "$(wc -w <"$folder/$engine.txt")" -eq 11 ]
done
code=0
"$programs/run" "$folder/missing.wfe" 2>/dev/null || code=$?
[ "$code" -eq 2 ] || { echo "a missing engine: exit $code" >&2; exit 1; }
