#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the source tree, one per name: check.py NAME. Exit 0: clean, 1: findings, 77: cannot be checked here.

Every check lists what it looked at; one that looked at nothing fails.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.environ.get("WF_TEST_SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("WF_TEST_BUILD_DIR") or os.path.join(ROOT, "build/release")
CC = os.environ.get("WF_TEST_CC", "cc")
SKIP = 77

findings = []


def find(path, line, text):
    findings.append(f"{path}:{line}: {text}" if line else f"{path}: {text}")


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIP)


def tree(*folders, endings):
    """Files below the folders, relative to the root, sorted."""
    found = []
    for folder in folders:
        for base, names, files in os.walk(os.path.join(ROOT, folder)):
            names[:] = [name for name in names if name not in ("build", ".git", "__pycache__")]
            found += [os.path.relpath(os.path.join(base, f), ROOT) for f in files if f.endswith(endings)]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def without_comments(text):
    """C source with comments, strings and characters blanked, line numbers kept."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


C_FOLDERS = ("include", "src", "tools", "tests", "bench")


# ---- Checks ----------------------------------------------------------------------------------------------------------

def check_includes():
    """Each #include goes in the direction of includes.txt."""
    rules = {}
    for line in read("tests/style/includes.txt").splitlines():
        if line and not line.startswith("#"):
            folder, allowed = line.split(":")
            rules[folder] = allowed.split()
    files = tree("src", "tools", endings=(".c", ".h", ".def"))
    for path in files:
        parts = path.split("/")
        folder = "/".join(parts[:2]) if parts[0] == "tools" else parts[1]
        if folder == "backends":
            folder = "backends/" + parts[2]
        rule = rules.get(folder, rules.get("backends/*") if folder.startswith("backends/") else None)
        if rule is None:
            find(path, 0, f"folder {folder} has no line in tests/style/includes.txt")
            continue
        for number, line in enumerate(read(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match:
                continue
            target = match.group(1)
            public = target.startswith("wayfinder/")
            own = target.startswith(folder + "/") or (folder.startswith("tools/") and "/" not in target)
            allowed = any(target == word or target.startswith(word + "/") for word in rule)
            if not (public or own or allowed):
                find(path, number, f'may not include "{target}" (tests/style/includes.txt)')
            elif not public and not os.path.exists(os.path.join(ROOT, "src", target)) and folder[:6] != "tools/":
                find(path, number, f'"{target}" is not below src/')
    return len(files)


BANNED = ("strcpy strcat sprintf vsprintf gets atoi atol atoll atof strtok alloca rand srand random system popen setjmp "
          "longjmp fork tmpnam mktemp").split()
ALLOCATING = "malloc calloc realloc free aligned_alloc posix_memalign strdup strndup asprintf vasprintf".split()
LIBRARY_ONLY = "exit _exit abort printf puts putchar perror".split()


def check_calls():
    """No banned call; plain allocation only in src/base; a library neither prints nor ends the program."""
    files = tree(*C_FOLDERS, endings=(".c", ".h"))
    for path in files:
        banned = list(BANNED)
        # The null source plays the faults of bad libraries on purpose: it prints, leaks and ends the process.
        if path.startswith("src/") and path != "src/base/mem.h":
            banned.append("qsort")  # undefined with NULL; wf_sort is not
        if path.startswith("src/") and not path.startswith("src/backends/null/"):
            banned += LIBRARY_ONLY + ([] if path.startswith("src/base/") else ALLOCATING)
        if path.startswith("tests/"):
            banned.remove("setjmp")
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
        for number, line in enumerate(without_comments(read(path)).splitlines(), 1):
            for match in pattern.finditer(line):
                find(path, number, f"{match.group(1)}() is banned here")
    return len(files)


def check_spdx():
    """The first line (the second after #!) names the licence."""
    files = tree(*C_FOLDERS, "scripts", "cmake", ".ci", endings=(".c", ".h", ".def", ".py", ".sh", ".cmake", ".in", ".cu",
                                                                 ".ipp", "CMakeLists.txt", "run"))
    files += ["CMakeLists.txt"]
    for path in files:
        lines = read(path).splitlines()[:3]
        first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not first or "SPDX-License-Identifier: Apache-2.0" not in first[0]:
            find(path, 1, "does not begin with SPDX-License-Identifier: Apache-2.0")
    return len(files)


def check_format():
    """clang-format 14 changes nothing."""
    tool = None
    for name in ("clang-format-14", "clang-format"):
        try:
            said = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if re.search(r"version 14\.", said):
            tool = name
            break
    if tool is None:
        skip("clang-format 14 is not installed; other versions format differently")
    files = tree(*C_FOLDERS, endings=(".c", ".h"))
    for start in range(0, len(files), 50):
        done = subprocess.run([tool, "--dry-run", "-Werror", "--style=file", *files[start:start + 50]], cwd=ROOT,
                              capture_output=True, text=True)
        for path in sorted({line.split(":")[0] for line in done.stderr.splitlines() if "error:" in line}):
            find(path, 0, f"run {tool} -i on it")
    return len(files)


def check_headers():
    """Each header compiles alone as C17; the public ones also as C++17."""
    headers = tree("include", "src", "tests/support", endings=(".h",))
    warnings = "-Wall -Wextra -Wpedantic -Wno-unused-function -Wno-unused-variable -Wno-psabi -Werror".split()
    includes = [f"-I{ROOT}/include", f"-I{ROOT}/src", f"-I{ROOT}/tests"]
    cxx = os.environ.get("WF_TEST_CXX", "c++")
    has_cxx = subprocess.run([cxx, "--version"], capture_output=True).returncode == 0 if which(cxx) else False
    if not has_cxx:
        print("not checked: public headers as C++17, there is no C++ compiler")
    for header in headers:
        name = re.sub(r"^(include|src|tests)/", "", header)
        defines = ["-D_GNU_SOURCE"]
        if "/kernels/" in header:
            defines += ["-DWF_TIER=scalar", "-DWF_VLEN=4"]
        runs = [[CC, "-x", "c", "-std=c17", "-Wstrict-prototypes"]]
        if header.startswith("include/") and has_cxx:
            runs.append([cxx, "-x", "c++", "-std=c++17"])
        for command in runs:
            done = subprocess.run([*command, *warnings, *defines, *includes, "-fsyntax-only", "-"],
                                  input=f'#include "{name}"\ntypedef int wf_not_empty;\n', capture_output=True, text=True)
            if done.returncode != 0:
                error = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
                find(header, 0, f"does not compile alone ({command[2]}): {error}")
    return len(headers)


def which(program):
    return any(os.access(os.path.join(folder, program), os.X_OK)
               for folder in os.environ.get("PATH", "").split(":")) or os.access(program, os.X_OK)


def exported(library):
    """Names that a shared library defines for others."""
    said = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[2].split("@")[0] for line in said.splitlines() if len(line.split()) == 3]
    return sorted(name for name in names if not name.startswith(("__asan", "__ubsan", "__tsan", "__odr_asan", "_init", "_fini")))


def check_symbols():
    """The shared libraries export exactly tests/style/public_symbols.txt: "rt NAME" in both, "full NAME" in one."""
    expected = {"rt": [], "full": []}
    for line in read("tests/style/public_symbols.txt").splitlines():
        if line and not line.startswith("#"):
            where, name = line.split()
            expected[where].append(name)
    libraries = {"libwayfinder_rt.so": sorted(expected["rt"]),
                 "libwayfinder.so": sorted(expected["rt"] + expected["full"])}
    for library, names in libraries.items():
        actual = exported(os.path.join(BUILD, library))
        for name in sorted(set(actual) - set(names)):
            find("tests/style/public_symbols.txt", 0, f"{library} exports {name}, which is not listed")
        for name in sorted(set(names) - set(actual)):
            find("tests/style/public_symbols.txt", 0, f"{library} does not export {name}")
    return len(expected["rt"]) + len(expected["full"])


def check_declared():
    """What the headers mark WF_API is what the list of public symbols says."""
    listed = {line.split()[1] for line in read("tests/style/public_symbols.txt").splitlines()
              if line and not line.startswith("#")}
    declared = set()
    headers = tree("include", endings=(".h",))
    for header in headers:
        text = without_comments(read(header))
        for match in re.finditer(r"^WF_API\b[^;]*?\b(wf_\w+)\s*\(", text, re.M):
            declared.add(match.group(1))
    for name in sorted(declared - listed):
        find("tests/style/public_symbols.txt", 0, f"lacks {name}, which a public header declares")
    for name in sorted(listed - declared):
        find("tests/style/public_symbols.txt", 0, f"lists {name}, which no public header declares")
    return len(declared)


def check_runtime():
    """A program that links libwayfinder_rt alone works, and that library has no code of the builder."""
    library = os.path.join(BUILD, "libwayfinder_rt.so")
    said = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        if line.split()[-1].startswith("wf_"):
            find("libwayfinder_rt.so", 0, f"needs {line.split()[-1]}, which it does not have")
    # Debug and local symbols tell where code came from even when nothing is exported.
    objects = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    for name in re.findall(r"\b[TtDdBbRr] (wf_(?:graph|onnx|route|pbqp|tune|verify|builder|tuner|model)_\w+)", objects):
        find("libwayfinder_rt.so", 0, f"holds {name}, which belongs to the builder")
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(ROOT, "tests/style/runtime_only.c")
        program = os.path.join(folder, "runtime_only")
        sanitizer = os.environ.get("WF_TEST_SANITIZE", "")
        flags = [f"-fsanitize={sanitizer}"] if sanitizer else []
        done = subprocess.run([CC, "-std=c17", *flags, f"-I{ROOT}/include", source, "-o", program, f"-L{BUILD}",
                               "-lwayfinder_rt", f"-Wl,-rpath,{BUILD}"], capture_output=True, text=True)
        if done.returncode != 0:
            find("tests/style/runtime_only.c", 0, "does not link with libwayfinder_rt alone: " + done.stderr[-500:])
        else:
            done = subprocess.run([program], capture_output=True, text=True)
            if done.returncode != 0:
                find("tests/style/runtime_only.c", 0, f"ends with {done.returncode}: {done.stderr[-500:]}")
    return 1


def check_error_pages():
    """One page per row of errors.def and no other."""
    numbers = {f"WF-{int(number):04d}": title for number, title in
               re.findall(r'^X\(\w+, (\d+), \d+, "([^"]+)"\)', read("include/wayfinder/errors.def"), re.M)}
    pages = {name[:-3] for name in os.listdir(os.path.join(ROOT, "docs/errors")) if name.startswith("WF-")}
    for page in sorted(set(numbers) - pages):
        find(f"docs/errors/{page}.md", 0, "is missing")
    for page in sorted(pages - set(numbers)):
        find(f"docs/errors/{page}.md", 0, "has no row in errors.def")
    for page in sorted(pages & set(numbers)):
        text = read(f"docs/errors/{page}.md")
        if not text.startswith(f"# {page}: {numbers[page]}\n"):
            find(f"docs/errors/{page}.md", 1, f'does not begin with "# {page}: {numbers[page]}"')
        if "## What to do" not in text:
            find(f"docs/errors/{page}.md", 0, 'has no section "What to do"')
    return len(numbers)


def check_verb_pages():
    """One page per verb, with its exit codes, and no other; help and generate speak for themselves."""
    verbs = set(re.findall(r"^X\([A-Z]+, ([a-z]+),", read("tools/wayfinder/verbs.def"), re.M)) - {"help", "generate"}
    pages = {name[:-3] for name in os.listdir(os.path.join(ROOT, "docs/verbs"))}
    for page in sorted(verbs - pages):
        find(f"docs/verbs/{page}.md", 0, "is missing")
    for page in sorted(pages - verbs):
        find(f"docs/verbs/{page}.md", 0, "has no row in tools/wayfinder/verbs.def")
    for page in sorted(pages & verbs):
        text = read(f"docs/verbs/{page}.md")
        if not text.startswith(f"# {page}\n"):
            find(f"docs/verbs/{page}.md", 1, f'does not begin with "# {page}"')
        if "| exit | meaning |" not in text:
            find(f"docs/verbs/{page}.md", 0, "has no table of exit codes")
    return len(verbs)


def check_paths():
    """No path of somebody's machine in a file that is shipped."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    files = listed.stdout.split("\n")[:-1] if listed.returncode == 0 else tree("", endings=("",))
    pattern = re.compile(r"(?<![\w.}/])/(?:work|home|root|Users)/[A-Za-z0-9_.-]+|(?<![\w.}/])/tmp/[A-Za-z0-9_-]+")
    looked_at = 0
    for path in files:
        full = os.path.join(ROOT, path)
        if not os.path.isfile(full) or os.path.islink(full) or path == "tests/style/check.py":
            continue
        with open(full, "rb") as file:
            data = file.read(1 << 22)
        if b"\0" in data[:8192]:
            continue
        looked_at += 1
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            match = pattern.search(line)
            if match:
                find(path, number, f"names a path of a machine: {match.group()}")
    return looked_at


CHECKS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("check_")}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in CHECKS:
        print("usage: check.py " + "|".join(sorted(CHECKS)), file=sys.stderr)
        return 2
    looked_at = CHECKS[sys.argv[1]]()
    for finding in findings:
        print(finding)
    print(f"{sys.argv[1]}: {looked_at} looked at, {len(findings)} findings")
    return 1 if findings or looked_at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
