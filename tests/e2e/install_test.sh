#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installation can be used through pkg-config, and uninstalling leaves nothing.
set -euo pipefail

folder=$(mktemp -d)
manifest="$WF_TEST_BUILD_DIR/install_manifest.txt"
[[ ! -e $manifest ]] || cp "$manifest" "$folder/manifest"
restore() {
    rm -f "$manifest"
    [[ ! -e $folder/manifest ]] || cp "$folder/manifest" "$manifest"
    rm -rf "$folder"
}
trap restore EXIT

prefix="$folder/prefix"
cmake --install "$WF_TEST_BUILD_DIR" --prefix "$prefix" >/dev/null

flags=()
if [[ -n ${WF_TEST_SANITIZE:-} ]]; then
    flags+=("-fsanitize=$WF_TEST_SANITIZE")
fi
configs=$(dirname "$(find "$prefix" -name wayfinder.pc)")
for library in wayfinder wayfinder_rt; do
    read -ra found <<<"$(PKG_CONFIG_PATH="$configs" pkg-config --cflags --libs "$library")"
    "$WF_TEST_CC" -std=c17 "${flags[@]}" "$WF_TEST_SOURCE_DIR/tests/style/runtime_only.c" -o "$folder/program" \
        "${found[@]}"
    LD_LIBRARY_PATH="$(dirname "$configs")" "$folder/program"
    LD_LIBRARY_PATH="$(dirname "$configs")" ldd "$folder/program" | grep -q "lib$library.so.0 => $prefix"
    echo "$library: used"
done

if [[ -x $prefix/bin/wayfinder ]]; then
    "$prefix/bin/wayfinder" --version
    grep -q "wayfinder" "$(find "$prefix" -name wayfinder-tune.1)"
fi

cmake -P "$WF_TEST_BUILD_DIR/uninstall.cmake" >/dev/null
left=$(find "$prefix" ! -type d)
if [[ -n $left ]]; then
    echo "left behind: $left"
    exit 1
fi
echo "uninstalled"
