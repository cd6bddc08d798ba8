# SPDX-License-Identifier: Apache-2.0
"""A model repository under CI: the plain-shell recipe of docs/ci on two small models, cold, warm, sealed, by two machines,
and every way in which a manifest can be wrong."""
import hashlib, json, os, shutil, subprocess, sys, tempfile

SOURCE, BUILD = os.environ["WF_TEST_SOURCE_DIR"], os.environ["WF_TEST_BUILD_DIR"]
TOOL, RECIPE = os.path.join(BUILD, "wayfinder"), os.path.join(SOURCE, "docs/ci/shell.sh")
MODEL = os.path.join(SOURCE, "examples/digits/digits.onnx")
OTHER = os.path.join(SOURCE, "tests/data/cases/cache_same_name_add_3x3/model.onnx")
GOOD = """version: 1
budget: 12s
models:
  - {name: digits, path: models/digits.onnx, threads: 2, policy: core, requests: 1M/day, shapes: {image: 1x1x8x8}}
  - name: small
    path: models/small.onnx
    target: 1s
machines:
  one: {models: [digits, small]}
  two: {match: no such processor, models: [digits], budget: 3s, threads: 1}
"""
checks = 0


def run(command, code, cwd, **env):
    global checks
    checks += 1
    environment = dict(os.environ, WAYFINDER=TOOL, XDG_STATE_HOME=os.path.join(cwd, "state"), **env)
    r = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, env=environment)
    assert r.returncode == code, f"{command}: exit {r.returncode}, wanted {code}\n{r.stdout}\n{r.stderr}"
    return r


def summary(repository):
    entries = json.load(open(os.path.join(repository, "wayfinder-store/summary.json")))["entries"]
    return {(e["machine"], e["name"]): e for e in entries}


def recipe(repository):
    store = os.path.join(repository, "wayfinder-store")
    said = run(["bash", RECIPE, repository], 0, repository).stdout
    assert "| digits | one |" in said and "| digits | two | missing |" in said, said
    cold = summary(repository)
    assert cold["one", "digits"]["measured"] > 0 and cold["one", "small"]["exit"] == 0, cold
    # Core and asked for more: it got the larger share, whatever its turn was.
    assert cold["one", "digits"]["budget_s"] > cold["one", "small"]["budget_s"] * 0.5, cold
    engine, lock = (os.path.join(store, "one", "digits" + end) for end in (".wfe", ".lock"))
    before = hashlib.sha256(open(engine, "rb").read()).digest()
    # Warm and sealed: nothing is measured, the same bytes come out.
    run(["bash", RECIPE, repository, "--require-cached"], 0, repository)
    warm = summary(repository)
    assert all(warm["one", n]["status"] == "recalled" and warm["one", n]["measured"] == 0 for n in ("digits", "small")), warm
    assert hashlib.sha256(open(engine, "rb").read()).digest() == before
    run([TOOL, "tune", MODEL, "--locked", lock, "-o", engine], 0, repository)
    # Another machine of the fleet, by name: the summary covers both.
    run(["bash", RECIPE, repository, "-q"], 0, repository, MACHINE="two")
    both = summary(repository)
    assert both["two", "digits"]["status"] in ("tuned", "default kept") and both["one", "digits"]["status"] == "recalled", both
    document = json.loads(run([TOOL, "tune", "--manifest", "wayfinder.yaml", "--json", "-q"], 0, repository).stdout)
    assert document["schema_version"] == 1 and len(document["entries"]) == 3 and document["machine"] == "one"


def failures(repository):
    def write(text):
        open(os.path.join(repository, "wayfinder.yaml"), "w").write(text)

    # One model that is not there does not stop the others; the exit code is its.
    write(GOOD.replace("models/small.onnx", "models/none.onnx"))
    run([TOOL, "tune", "--manifest", "wayfinder.yaml", "-q"], 2, repository)
    now = summary(repository)
    assert now["one", "small"]["status"] == "failed" and "none.onnx" in now["one", "small"]["message"], now
    assert now["one", "digits"]["status"] == "recalled", now
    write(GOOD.replace("target: 1s", "target: 0.000001ms"))
    run([TOOL, "tune", "--manifest", "wayfinder.yaml", "-q"], 3, repository)
    assert summary(repository)["one", "small"]["status"] == "target not met"
    write(GOOD.replace("budget: 12s", "budget: 12s\ntiming-cache: empty.db"))
    run([TOOL, "tune", "--manifest", "wayfinder.yaml", "-q", "--require-cached"], 9, repository)
    wrong = [("version: 1", "version: 2", 1, "version"), ("budget: 12s", "budget: soon", 2, "budget"),
             ("budget: 12s", "bugdet: 6s", 2, "budget"), ("path: models/small.onnx", "pth: x", 6, "path"),
             ("    target: 1s\n", "    target: 1s\n    target: 2s\n", 8, "twice"), ("policy: core", "policy: most", 4, "longtail"),
             ("threads: 2", "threads: 0", 4, "threads"), ("1M/day", "many", 4, "rate"), ("name: small", "name: ../small", 5, "small"),
             ("name: small", "name: digits", 5, "digits"), ("[digits, small]", "[digits, smal]", 9, "smal"),
             ("{image: 1x1x8x8}", "[image]", 4, "shapes"), ("    target: 1s", "  target: [1s", 7, ""),
             ("    path: models/small.onnx\n", "", 5, "path"), (GOOD, "", 1, "empty"), (GOOD, "- a\n", 1, "mapping")]
    for old, new, line, word in wrong:
        assert old in GOOD
        write(GOOD.replace(old, new, 1))
        r = run([TOOL, "tune", "--manifest", "wayfinder.yaml"], 2, repository)
        assert f"wayfinder.yaml line {line}" in r.stderr and word in r.stderr, (new, r.stderr)
    write(GOOD)
    r = run([TOOL, "tune", "--manifest", "wayfinder.yaml", "--machine", "three"], 2, repository)
    assert "three" in r.stderr
    run([TOOL, "tune", "--manifest", "none.yaml"], 2, repository)


def main():
    repository = tempfile.mkdtemp()
    try:
        os.mkdir(os.path.join(repository, "models"))
        shutil.copy(MODEL, os.path.join(repository, "models/digits.onnx"))
        shutil.copy(OTHER, os.path.join(repository, "models/small.onnx"))
        open(os.path.join(repository, "wayfinder.yaml"), "w").write(GOOD)
        recipe(repository)
        failures(repository)
    finally:
        shutil.rmtree(repository)
    print(f"{checks} runs as expected")


if __name__ == "__main__":
    sys.exit(main())
