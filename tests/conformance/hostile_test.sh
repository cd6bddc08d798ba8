#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Broken and abusive files are refused with a clear error, in seconds and little memory, and leave nothing behind.
set -uo pipefail
tool="$WF_TEST_BUILD_DIR/wayfinder"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$WF_TEST_SOURCE_DIR"/tests/data/hostile/* "$folder"
echo 0123456789abcdef >"$folder/outside"
mkdir "$folder/models"
mv "$folder"/*.onnx "$folder/w.bin" "$folder/models"
python3 "$WF_TEST_SOURCE_DIR/tests/conformance/hostile_make.py" "$folder/models" || exit 1
ln -s ../outside "$folder/models/link.bin"
failed=0
# The address sanitizer reserves terabytes of addresses, so only plain builds are held to 1 GiB.
[ -n "${WF_TEST_SANITIZE:-}" ] || ulimit -v 1048576
for model in "$folder"/models/*.onnx; do
    name=$(basename "$model" .onnx)
    message=$(timeout 120 "$tool" build "$model" -o "$folder/out.wfe" -q 2>&1)
    code=$?
    if [ "$name" = control ]; then
        [ $code -eq 0 ] && [ -s "$folder/out.wfe" ] || { echo "$name: exit $code, $message"; failed=1; }
        rm -f "$folder/out.wfe"
    elif [ $code -ne 8 ] || [ -e "$folder/out.wfe" ] || ! grep -q '^error WF-08' <<<"$message"; then
        echo "$name: exit $code, $message"
        failed=1
    fi
done
exit $failed
