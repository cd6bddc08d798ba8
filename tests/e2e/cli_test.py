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
    for verb in ("inspect", "build", "tune", "run", "bench", "verify", "explain", "cache"):
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


def main():
    tmp = tempfile.mkdtemp()
    try:
        bad_input(tmp, verbs(tmp))
    finally:
        shutil.rmtree(tmp)
    print(f"{checks} runs of the tool as expected")


if __name__ == "__main__":
    sys.exit(main())
