#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's own operator tests. WF_OPERATOR_TESTS names the folder that bench/conformance/dump_operator_tests.py wrote; without it
# the test skips, loudly: they need the onnx package, and tests use no network.
set -uo pipefail
if [ -z "${WF_OPERATOR_TESTS:-}" ] || [ ! -d "$WF_OPERATOR_TESTS" ]; then
    echo "SKIP operators_test: set WF_OPERATOR_TESTS to the folder of bench/conformance/dump_operator_tests.py" >&2
    exit 77
fi
out=$("$WF_TEST_BUILD_DIR/wayfinder" verify --conformance "$WF_OPERATOR_TESTS" -q)
code=$?
echo "$out" | tail -n 40
[ $code -eq 0 ] || exit 1
read -r passed _ _ _ <<<"$(tail -n 1 <<<"$out")"
[ "$passed" -ge 850 ]
