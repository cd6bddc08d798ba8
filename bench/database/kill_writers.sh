#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eight writers of one timing database, killed 200 times at random moments: prints how many rows were told as kept; fails
# when one of them is not there or the file is not sound.
#
#   bench/database/kill_writers.sh [KILLS] [BUILD]
set -euo pipefail
kills=${1:-200}
build=${2:-$(dirname "$0")/../../build/release}
WF_TEST_KILLS=$kills WF_TEST_SEED=${WF_TEST_SEED:-$RANDOM} "$build/tests/fault/fault_database_kill_test"
