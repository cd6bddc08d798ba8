# SPDX-License-Identifier: Apache-2.0
"""An engine with steps of oneDNN: built from a lock, verified, run by a fresh process, rebuilt byte for byte; and what is said
where the library is missing. Skipped by name where it is missing here."""
import ctypes, json, os, re, shutil, subprocess, sys, tempfile

SOURCE, BUILD = os.environ["WF_TEST_SOURCE_DIR"], os.environ["WF_TEST_BUILD_DIR"]
TOOL, DIGITS = os.path.join(BUILD, "wayfinder"), os.path.join(SOURCE, "examples/digits")
MODEL, SEVEN = os.path.join(DIGITS, "digits.onnx"), os.path.join(DIGITS, "seven.npy")
MISSING = {"WAYFINDER_ONEDNN": "/nonexistent/libdnnl.so.2"}


def tool(*args, code=0, env={}):
    r = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=120, env={**os.environ, **env})
    assert r.returncode == code, f"{args}: exit {r.returncode}, wanted {code}\n{r.stdout}\n{r.stderr}"
    return r


def tactics(engine):
    return [step["tactic"] for step in json.loads(tool("explain", engine, "--json").stdout)["steps"]]


def edited(lock):
    """The lock with the second convolution and the pool on oneDNN."""
    lines = lock.split("\n")
    for i in range(lines.index("[plan]"), lines.index("[evidence]")):
        lines[i] = re.sub(r"^(a2 \S+) \S+", r"\1 onednn/jit:avx2.last", lines[i])
        lines[i] = re.sub(r"^(q \S+) \S+", r"\1 onednn/jit:avx2.pool_last", lines[i])
    return "\n".join(lines)


def main():
    try:
        ctypes.CDLL("libdnnl.so.2")
    except OSError:
        print("SKIPPED: oneDNN (libdnnl.so.2) is not installed")
        sys.exit(77)
    tmp = tempfile.mkdtemp()
    path = lambda name: os.path.join(tmp, name)
    try:
        tool("tune", MODEL, "-o", path("tuned.wfe"), "--lock", path("tuned.wfplan"), "--budget", "1s", "--isa", "avx2",
             "--timing-cache", path("timings.sqlite"), "-k", "layout.blocked=off")
        open(path("onednn.wfplan"), "w").write(edited(open(path("tuned.wfplan")).read()))
        build = ["build", MODEL, "--isa", "avx2", "--lock", path("onednn.wfplan"), "-k", "layout.blocked=off"]
        tool(*build, "-o", path("first.wfe"))
        tool(*build, "-o", path("second.wfe"))
        assert open(path("first.wfe"), "rb").read() == open(path("second.wfe"), "rb").read()
        assert sum(t.startswith("onednn/") for t in tactics(path("first.wfe"))) == 2, tactics(path("first.wfe"))
        assert json.loads(tool("verify", path("first.wfe"), "--model", MODEL, "--json").stdout)["passed"]
        for threads in "1", "2":
            tool("run", path("first.wfe"), "--input", f"image={SEVEN}", "--output-dir", path("out"), "--threads", threads)
            tool("bench", path("first.wfe"), path("tuned.wfe"), "--duration", "100ms", "--threads", threads)
        # Not a word of the library's own.
        noisy = tool("run", path("first.wfe"), "--random", env={"DNNL_VERBOSE": "2"})
        assert "dnnl_verbose" not in noisy.stdout + noisy.stderr
        gone = tool("run", path("first.wfe"), "--random", code=7, env=MISSING)
        assert "WF-0703" in gone.stderr and "oneDNN" in gone.stderr and "build the engine again" in gone.stderr, gone.stderr
        # Without the library everything but its own engines works.
        tool("build", MODEL, "-o", path("plain.wfe"), env=MISSING)
        tool("run", path("plain.wfe"), "--random", env=MISSING)
        assert not any(t.startswith("onednn/") for t in tactics(path("plain.wfe")))
    finally:
        shutil.rmtree(tmp)
    print("oneDNN engines as expected")


if __name__ == "__main__":
    main()
