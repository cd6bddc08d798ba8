#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and tests, and closes with "N passed, N failed, N skipped".
#
#   scripts/test.sh [quick|full|sanitize]
#
#   quick   release build; unit, plan and style tests
#   full    (default) what CI runs: all tests of the release build
#   sanitize  full, and unit, plan, fuzz and fault tests under AddressSanitizer and UndefinedBehaviorSanitizer, unit tests
#           under ThreadSanitizer
#
# JOBS sets the number of parallel build jobs (default: CPUs of the process). Exits with 1 when a test failed or a build
# did.
set -euo pipefail
cd "$(dirname "$0")/.."

tier=${1:-full}
case "$tier" in
quick | full | sanitize) ;;
*)
    echo "usage: scripts/test.sh [quick|full|sanitize]" >&2
    exit 2
    ;;
esac
jobs=${JOBS:-$(nproc)}

if [[ $tier == quick ]]; then
    scripts/setup.sh
else
    scripts/setup.sh --tests
fi

passed=0
failed=0
skipped=0

# PRESET, then arguments of ctest. Counts what ctest says of each test in its machine-readable summary.
run_tests() {
    local preset=$1
    shift
    local report="build/$preset/ctest.xml"
    echo "== test: $preset $*"
    rm -f "$report"
    # Tests run one after the other: several of them use all cores.
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --output-junit ctest.xml "$@" || true
    local counts
    if ! counts=$(python3 scripts/count_tests.py "$report"); then
        echo "no test of $preset was run" >&2
        failed=$((failed + 1))
        return
    fi
    local run_passed run_failed run_skipped
    read -r run_passed run_failed run_skipped <<<"$counts"
    passed=$((passed + run_passed))
    failed=$((failed + run_failed))
    skipped=$((skipped + run_skipped))
}

# PRESET: builds it; a build that fails is a failed test, and its tests are not run.
build() {
    local preset=$1
    echo "== build: $preset"
    if cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs"; then
        return 0
    fi
    echo "== the build of $preset failed"
    failed=$((failed + 1))
    return 1
}

if build release; then
    if [[ $tier == quick ]]; then
        run_tests release -L '^(unit|plan|style)$'
    else
        run_tests release
    fi
fi
if [[ $tier == sanitize ]]; then
    if build asan; then
        run_tests asan -L '^(unit|plan|fuzz|fault)$'
    fi
    if build tsan; then
        run_tests tsan -L '^unit$'
    fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 && $passed -gt 0 ]]
