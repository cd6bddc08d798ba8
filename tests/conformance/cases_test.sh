#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every regression case of tests/data/cases through a whole build.
set -euo pipefail
out=$("$WF_TEST_BUILD_DIR/wayfinder" verify --conformance "$WF_TEST_SOURCE_DIR/tests/data/cases" -q) || {
    echo "$out"
    exit 1
}
echo "$out"
read -r passed _ _ _ <<<"$(tail -n 1 <<<"$out")"
[ "$passed" -ge 120 ] || { echo "only $passed cases ran" >&2; exit 1; }
