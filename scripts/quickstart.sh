#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh machine to a tuned model: installs what is missing (says what first), builds, tunes the model that ships in
# examples/digits, runs it and shows what was gained and why.
#
#   scripts/quickstart.sh [MODEL.onnx [wayfinder tune options]]
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:-examples/digits/digits.onnx}
[ $# -eq 0 ] || shift

scripts/setup.sh
echo "== building"
cmake --preset release
cmake --build --preset release --target wayfinder_cli wayfinder_worker

wayfinder=build/release/wayfinder
out=build/quickstart
mkdir -p "$out"
echo "== what the model holds"
"$wayfinder" inspect "$model"
echo "== default engine"
"$wayfinder" build "$model" -o "$out/default.wfe"
echo "== tuning"
"$wayfinder" tune "$model" -o "$out/tuned.wfe" --budget 20s "$@"
if [ "$model" = examples/digits/digits.onnx ]; then
    echo "== running it on a handwritten seven"
    "$wayfinder" run "$out/tuned.wfe" --input image=examples/digits/seven.npy --output-dir "$out/outputs"
fi
echo "== what was gained: the tuned engine (1) against the default (0), interleaved"
"$wayfinder" bench "$out/default.wfe" "$out/tuned.wfe" --duration 2s
echo "== and why: each step, its tactic and what it beat"
"$wayfinder" explain "$out/tuned.wfe"
echo
echo "The same on a model of yours: $wayfinder tune MODEL.onnx -o MODEL.wfe --budget 2m"
