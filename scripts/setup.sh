#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need: Debian packages, and nothing else unless asked. Says what it will install
# first; does nothing, and needs no root, when all is there.
#
#   scripts/setup.sh [--fuzz] [--tests] [--check]
#
#   --fuzz    clang too, for the fuzz preset
#   --tests   ONNX's operator tests too, from its Python package, into build/ (scripts/operator_tests.sh)
#   --check   only tell what is missing; exit 1 when something is
set -euo pipefail
cd "$(dirname "$0")/.."

# Package, and how to tell that it is there without asking the package manager: "command:NAME", "pkg-config:NAME",
# "library:NAME" (for the loader), "python:MODULE".
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
    "libyaml-dev        pkg-config:yaml-0.1"
    "libxxhash-dev      pkg-config:libxxhash"
    "libcmocka-dev      pkg-config:cmocka"
)
# Missing ones are installed too where the distribution has them, but nothing fails without them: tests skip by name.
optional=(
    "libdnnl2           library:libdnnl.so.2"
    "clang-format-14    command:clang-format-14"
    "python3-venv       python:ensurepip"
)
fuzz=("clang             command:clang")

check_only=false
with_tests=false
for argument in "$@"; do
    case "$argument" in
    --fuzz) required+=("${fuzz[@]}") ;;
    --tests) with_tests=true ;;
    --check) check_only=true ;;
    *)
        echo "usage: scripts/setup.sh [--fuzz] [--tests] [--check]" >&2
        exit 2
        ;;
    esac
done

is_there() {
    local kind=${1%%:*} name=${1#*:}
    case "$kind" in
    command) command -v "$name" >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null && pkg-config --exists "$name" ;;
    python) command -v python3 >/dev/null && python3 -c "import $name" 2>/dev/null ;;
    library) PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$name " ;;
    esac
}

# Tests that need what is not there skip by name, so nothing fails here.
make_tests() {
    if $with_tests && ! scripts/operator_tests.sh; then
        echo "setup: ONNX's operator tests are not to be had, going on without them" >&2
    fi
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
    $check_only || make_tests
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
            make_tests
            exit 0
        fi
        echo "setup: neither root nor sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
if ! command -v apt-get >/dev/null; then
    if [[ ${#missing[@]} -eq 0 ]]; then
        make_tests
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
make_tests
