#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes ONNX's operator tests to build/operator-tests, where conformance.operators_test looks for them. Needs the Python
# packages of bench/conformance/requirements.txt, which it installs into a folder of its own under build/. Does nothing when
# the tests of the same versions are there; exits with 1, and leaves nothing, when they cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/operator-tests
stamp=$(cat bench/conformance/requirements.txt bench/conformance/dump_operator_tests.py | sha256sum)
if [[ -f $out/stamp && $(cat "$out/stamp") == "$stamp" ]]; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! python3 -m venv "$work/python" >"$work/log" 2>&1 ||
    ! "$work/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        --requirement bench/conformance/requirements.txt >>"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    exit 1
fi
if ! "$work/python/bin/python" bench/conformance/dump_operator_tests.py "$work/tests" >"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    exit 1
fi
tail -n 1 "$work/log"
mkdir -p build
rm -rf "$out"
mv "$work/tests" "$out"
echo "$stamp" >"$out/stamp"
