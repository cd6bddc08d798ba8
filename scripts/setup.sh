#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, from Debian packages only. Says what it will install first; does nothing, and
# needs no root, when all is there.
#
#   scripts/setup.sh [--fuzz] [--check]
#
#   --fuzz    clang too, for the fuzz preset
#   --check   only tell what is missing; exit 1 when something is
set -euo pipefail

# Package, and how to tell that it is there without asking the package manager: "command:NAME", "pkg-config:NAME",
# "library:NAME" (for the loader).
required=(
    "gcc                command:gcc"
    "g++                command:g++"
    "cmake              command:cmake"
    "ninja-build        command:ninja"
    "pkg-config         command:pkg-config"
    "git                command:git"
    "python3            command:python3"
    "libjansson-dev     pkg-config:jansson"
    "libsqlite3-dev     pkg-config:sqlite3"
    "libxxhash-dev      pkg-config:libxxhash"
    "libcmocka-dev      pkg-config:cmocka"
)
# Missing ones are installed too where the distribution has them, but nothing fails without them: tests skip by name.
optional=(
    "libdnnl2           library:libdnnl.so.2"
    "clang-format-14    command:clang-format-14"
)
fuzz=("clang             command:clang")

check_only=false
for argument in "$@"; do
    case "$argument" in
    --fuzz) required+=("${fuzz[@]}") ;;
    --check) check_only=true ;;
    *)
        echo "usage: scripts/setup.sh [--fuzz] [--check]" >&2
        exit 2
        ;;
    esac
done

is_there() {
    local kind=${1%%:*} name=${1#*:}
    case "$kind" in
    command) command -v "$name" >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null && pkg-config --exists "$name" ;;
    library) PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$name " ;;
    esac
}

missing_of() {
    local row package probe
    for row in "$@"; do
        read -r package probe <<<"$row"
        is_there "$probe" || echo "$package"
    done
}

mapfile -t missing < <(missing_of "${required[@]}")
mapfile -t wished < <(missing_of "${optional[@]}")

if [[ ${#missing[@]} -eq 0 && ${#wished[@]} -eq 0 ]]; then
    echo "setup: everything is there"
    exit 0
fi
echo "setup: missing: ${missing[*]:-nothing}; optional: ${wished[*]:-nothing}"
if $check_only; then
    [[ ${#missing[@]} -eq 0 ]]
    exit
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
        if [[ ${#missing[@]} -eq 0 ]]; then
            exit 0
        fi
        echo "setup: neither root nor sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
if ! command -v apt-get >/dev/null; then
    if [[ ${#missing[@]} -eq 0 ]]; then
        exit 0
    fi
    echo "setup: no apt-get here; install the equivalents of: ${missing[*]}" >&2
    exit 1
fi

apt_install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

"${as_root[@]}" apt-get update || echo "setup: the package lists could not be renewed, trying with the old ones" >&2
if [[ ${#missing[@]} -gt 0 ]]; then
    echo "setup: installing ${missing[*]}"
    apt_install "${missing[@]}"
fi
for package in "${wished[@]}"; do
    echo "setup: installing $package (optional)"
    apt_install "$package" || echo "setup: $package is not to be had, going on without it" >&2
done
