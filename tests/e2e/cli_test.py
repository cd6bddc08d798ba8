# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: every verb on the digits model, exit codes, the JSON contract, bad input."""
import array, json, os, shutil, struct, subprocess, sys, tempfile

SOURCE, BUILD = os.environ["WF_TEST_SOURCE_DIR"], os.environ["WF_TEST_BUILD_DIR"]
TOOL, DIGITS = os.path.join(BUILD, "wayfinder"), os.path.join(SOURCE, "examples/digits")
MODEL, SEVEN = os.path.join(DIGITS, "digits.onnx"), os.path.join(DIGITS, "seven.npy")
checks = 0


def tool(*args, code=0, cwd=None):
    global checks
    checks += 1
    r = subprocess.run([TOOL, *args], capture_output=True, text=True, cwd=cwd, timeout=300)
    assert r.returncode == code, f"{args}: exit {r.returncode}, wanted {code}\n{r.stdout}\n{r.stderr}"
    return r


def refused(*args, code, word, name):
    """An error says its code and the word, as text and as exactly one JSON document."""
    r = tool(*args, code=code)
    assert name in r.stderr and word in r.stderr, r.stderr
    document = json.loads(tool(*args, "--json", code=code).stdout)
    assert document["schema_version"] == 1 and document["error"]["code"] == name and document["error"]["exit"] == code
    assert word in document["error"]["message"] + document["error"]["hint"], document


def floats(path):
    data = open(path, "rb").read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return array.array("f", data[start:])


def verbs(tmp):
    engine = os.path.join(tmp, "digits.wfe")
    assert tool("--version").stdout.startswith("wayfinder ")
    about = json.loads(tool("inspect", MODEL, "--json").stdout)
    assert about["can_be_compiled"] and about["operators"]["Conv"] == 2 and about["inputs"][0]["dims"] == [1, 1, 8, 8]
    tool("build", MODEL, cwd=tmp)                                # the model's name with .wfe, here
    assert os.path.exists(engine)
    before = open(engine, "rb").read()
    tool("build", MODEL, "-o", engine)                           # an engine may be replaced, and has the same bytes
    assert open(engine, "rb").read() == before
    facts = json.loads(tool("inspect", engine, "--json").stdout)
    assert facts["kind"] == "engine" and facts["specialisations"][0]["outputs"][0]["dims"] == [1, 10]
    out = os.path.join(tmp, "out")
    tool("run", engine, "--input", f"image={SEVEN}", "--output-dir", out)
    index = json.load(open(os.path.join(out, "outputs.json")))
    assert index == {"scores": {"file": "scores.npy", "dtype": "f32", "shape": [1, 10]}}
    scores = floats(os.path.join(out, "scores.npy"))
    assert scores.index(max(scores)) == 7, list(scores)
    raw = os.path.join(tmp, "seven.bin")
    open(raw, "wb").write(floats(SEVEN).tobytes())
    tool("run", MODEL, "--input", f"image={raw}", "--output-dir", out)
    assert all(abs(a - b) < 1e-4 for a, b in zip(scores, floats(os.path.join(out, "scores.npy"))))
    bench = json.loads(tool("bench", engine, engine, "--duration", "200ms", "--json").stdout)
    assert len(bench["engines"]) == 2 and bench["pairs"][0]["n"] > 0 and bench["pairs"][0]["lo95"] <= bench["pairs"][0]["ratio"]
    assert json.loads(tool("verify", engine, "--model", MODEL, "--json").stdout)["passed"]
    steps = json.loads(tool("explain", engine, "--json").stdout)["steps"]
    assert any("Conv" in s["nodes"] or "conv" in s["nodes"] for s in steps) and all(s["tactic"] for s in steps)
    for verb in ("inspect", "build", "tune", "run", "bench", "verify", "explain", "gate", "baseline", "diff", "cache"):
        assert "usage: wayfinder " + verb in tool(verb, "--help").stdout
        assert ".SH OPTIONS" in tool("generate", "man", verb).stdout
    for shell in ("bash", "zsh", "fish"):
        assert "tune" in tool("generate", shell).stdout
    return engine


def bad_input(tmp, engine):
    text = os.path.join(tmp, "text.onnx")
    open(text, "w").write("this is not a model\n")
    cut = os.path.join(tmp, "cut.wfe")
    open(cut, "wb").write(open(engine, "rb").read()[:-100])
    other = os.path.join(tmp, "precious.txt")
    open(other, "w").write("do not lose this")
    refused("biuld", MODEL, code=2, word="build", name="WF-0201")
    refused("build", MODEL, "--ouput", "x", code=2, word="--output", name="WF-0201")
    refused("build", MODEL, "--value", "imge=1", code=2, word="no such input", name="WF-0201")
    refused("build", MODEL, "--value", "image=1,x", code=2, word="element 1 of 64", name="WF-0201")
    refused("build", MODEL, "-k", "fuse.atention=off", code=2, word="fuse.attention", name="WF-0201")
    refused("build", MODEL, "--shape", "imge=1x1x8x8", code=2, word="image", name="WF-0201")
    refused("tune", MODEL, "--budget", "soon", code=2, word="duration", name="WF-0201")
    refused("build", os.path.join(tmp, "none.onnx"), code=2, word="none.onnx", name="WF-0202")
    refused("build", text, code=8, word="text.onnx", name="WF-0801")
    refused("run", cut, "--random", code=8, word="cut off", name="WF-0806")
    refused("run", engine, code=2, word="image", name="WF-0206")
    refused("run", engine, "--input", f"imag={SEVEN}", code=2, word="image", name="WF-0201")
    refused("run", engine, "--input", f"image={text}", code=2, word="bytes", name="WF-0207")
    refused("build", MODEL, "-o", other, code=2, word="--force", name="WF-0205")
    assert open(other).read() == "do not lose this"
    refused("build", MODEL, "-o", os.path.join(tmp, "no/such/folder.wfe"), code=2, word="folder.wfe", name="WF-0202")
    refused("verify", engine, code=2, word="--model", name="WF-0201")
    assert not [n for n in os.listdir(tmp) if "tmp" in n], os.listdir(tmp)


def gates(tmp, engine):
    """Baselines by the tuner, a gate in every form, what a gate must refuse. Verdicts hang on the machine; exits do not lie."""
    tuned, lock = os.path.join(tmp, "tuned.wfe"), os.path.join(tmp, "tuned.lock")
    tool("tune", MODEL, "-o", tuned, "--budget", "6s", "--timing-cache", os.path.join(tmp, "t.db"), "--record",
         os.path.join(tmp, "r.jsonl"), "--lock", lock)
    base, store = tuned + ".baseline.json", os.path.join(tmp, "store")
    facts = json.load(open(base))
    assert facts["engine"]["hash"] == json.loads(tool("inspect", tuned, "--json").stdout)["content_hash"]
    assert facts["schema_version"] == 1 and facts["shapes"] == "image f32 1x1x8x8", facts
    assert facts["samples_ns"] or facts["time"]["median_ns"] == 0, facts      # a busy machine may have had no time
    first = json.loads(tool("gate", tuned, "--baseline", os.path.join(tmp, "none.json"), "--json").stdout)
    assert first["verdict"] == "first" and first["notes"]

    def gate(*args):
        global checks
        checks += 1
        r = subprocess.run([TOOL, "gate", *args, "--budget", "4s", "--json"], capture_output=True, text=True, timeout=120)
        report = json.loads(r.stdout)
        assert r.returncode == report["exit"] and r.returncode == {"passed": 0, "improved": 0, "regressed": 5,
                                                                   "inconclusive": 6}[report["verdict"]], r.stdout
        return report

    junit, summary = os.path.join(tmp, "j.xml"), os.path.join(tmp, "s.md")
    same = gate(tuned, "--baseline", base, "--junit", junit, "--markdown", summary)
    assert same["same_engine"] and same["verdict"] != "regressed" and same["first"]["rounds"] > 0, same
    assert "<testsuite" in open(junit).read() and "wayfinder gate" in open(summary).read()
    assert not gate(engine, "--baseline", base)["same_engine"] or open(engine, "rb").read() == open(tuned, "rb").read()
    # The store: nothing until something is promoted; then it is enough by itself.
    assert json.loads(tool("gate", engine, "--store", store, "--json").stdout)["verdict"] == "first"
    tool("baseline", "promote", tuned, "--store", store)
    shown = [json.loads(tool("baseline", "show", *words, "--json").stdout)
             for words in ((tuned,), (tuned + ".baseline.json",), (tuned, "--store", store))]
    assert len({s["engine"] for s in shown}) == 1 and all(s["samples"] == len(facts["samples_ns"]) for s in shown), shown
    # Explain finds what the lock says of a step although plans name steps by values and engines by nodes.
    plan, evidence = open(lock).read().split("[plan]\n")[1].split("[evidence]\n")
    known = {line.rsplit(" ", 6)[0] for line in evidence.splitlines()}
    lines = [line.split() for line in plan.splitlines() if not line.startswith("convert ")]
    with_evidence = {(line[1], line[2]) for line in lines if line[0] in known and len(line) > 2}
    for step in json.loads(tool("explain", tuned, "--json").stdout)["steps"]:
        assert step["problem"].startswith("v1 wf.convert") or ("evidence" in step) == (
            (step["problem_hash"], step["tactic"]) in with_evidence), step
    shutil.move(tuned, tuned + ".away")
    report = gate(engine, "--store", store)
    assert report["baseline"]["hash"] == facts["engine"]["hash"] and store in report["baseline"]["path"]
    gate(engine, "--store", store, "--baseline", base)
    lines = [json.loads(line) for d, _, names in os.walk(store) if "history.jsonl" in names
             for line in open(os.path.join(d, "history.jsonl"))]
    assert [line["type"] for line in lines] == ["promote", "gate", "gate"], lines
    history = json.loads(tool("baseline", "history", engine, "--store", store, "--json").stdout)
    assert len(history["points"]) == 2 and history["verdict"] == "steady" and not history["skipped"], history
    path = [os.path.join(d, "history.jsonl") for d, _, names in os.walk(store) if "history.jsonl" in names][0]
    with open(path, "w") as out:        # slower and slower; the last line is torn
        for i in range(30):
            out.write(json.dumps({**lines[1], "engine": f"{i:032x}", "ratio": 1 + 0.004 * i}) + "\n")
        out.write('{"type": "ga')
    creep = json.loads(tool("gate", engine, "--store", store, "--history", "--json", code=5).stdout)
    assert creep["verdict"] == "crept" and creep["skipped"] == 1 and creep["ratio"] > 1.05, creep
    if facts["engine"]["hash"] != json.loads(tool("inspect", engine, "--json").stdout)["content_hash"]:
        refused("gate", engine, "--baseline", base, code=9, word="found neither", name="WF-0905")
    shutil.move(tuned + ".away", tuned)
    diff = json.loads(tool("diff", engine, tuned, "--budget", "500ms", "--json").stdout)
    regions = sum(r["difference_ns"] for r in diff["regions"])
    assert abs(regions - diff["explained_ns"]) < 1 and diff["runs"] >= 7, diff
    assert abs(diff["explained_ns"] + diff["unexplained_ns"] - diff["difference_ns"]) < 1, diff
    # Bad baselines: each is refused and nothing is lost.
    bad = os.path.join(tmp, "bad.json")
    for change, word in (({"schema": "other"}, "schema"), ({"schema_version": 99}, "schema 99"),
                         ({"model": "0" * 32}, "another model"), ({"device": "toaster"}, "another machine"),
                         ({"engine": {"hash": "x", "file": "a", "bytes": 1}}, "hash"),
                         ({"engine": {"hash": "0" * 32, "file": "../a", "bytes": 1}}, "file"),
                         ({"threads": 0}, "threads"), ({"samples_ns": [1, "x"]}, "samples_ns"), ({"time": 3}, "time")):
        json.dump({**facts, **change}, open(bad, "w"))
        refused("gate", tuned, "--baseline", bad, code=9, word=word, name="WF-0905")
    open(bad, "w").write(open(base).read()[:200])
    refused("gate", tuned, "--baseline", bad, code=9, word="line", name="WF-0905")
    assert open(bad).read() == open(base).read()[:200] and json.load(open(base)) == facts
    refused("gate", tuned, code=2, word="--baseline", name="WF-0201")
    refused("gate", tuned, "--baseline", base, "--min-effect", "much", code=2, word="share", name="WF-0201")
    refused("gate", MODEL, "--baseline", base, code=8, word="engine", name="WF-0806")


def main():
    tmp = tempfile.mkdtemp()
    try:
        engine = verbs(tmp)
        bad_input(tmp, engine)
        gates(tmp, engine)
    finally:
        shutil.rmtree(tmp)
    print(f"{checks} runs of the tool as expected")


if __name__ == "__main__":
    sys.exit(main())
