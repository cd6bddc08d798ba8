#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's own operator tests: none may fail. WF_OPERATOR_TESTS names their folder (default: build/operator-tests, which
# scripts/setup.sh --tests writes); without one the test skips, loudly, because tests use no network.
set -uo pipefail
folder=${WF_OPERATOR_TESTS:-$WF_TEST_SOURCE_DIR/build/operator-tests}
if [ ! -d "$folder" ]; then
    echo "SKIP operators_test: no $folder; scripts/setup.sh --tests writes it" >&2
    exit 77
fi
out=$("$WF_TEST_BUILD_DIR/wayfinder" verify --conformance "$folder" -q)
code=$?
echo "$out" | tail -n 40
[ $code -eq 0 ] || exit 1
read -r passed _ _ _ <<<"$(tail -n 1 <<<"$out")"
[ "$passed" -ge 1480 ]
