# SPDX-License-Identifier: Apache-2.0
"""What makes a tuning last: the database's decisions, locks that give the same bytes anywhere, engines that know their
machine. On the digits model."""
import hashlib, json, os, shutil, subprocess, sys, tempfile, threading

SOURCE, BUILD = os.environ["WF_TEST_SOURCE_DIR"], os.environ["WF_TEST_BUILD_DIR"]
TOOL = os.path.join(BUILD, "wayfinder")
MODEL = os.path.join(SOURCE, "examples/digits/digits.onnx")
OTHER = os.path.join(SOURCE, "tests/data/cases/cache_same_name_add_3x3/model.onnx")
STATE = tempfile.mkdtemp()  # records of earlier runs must not be gone on with
checks = 0


def tool(*args, code=0, cwd=None, env=None, prefix=()):
    global checks
    checks += 1
    environment = dict(os.environ, XDG_STATE_HOME=STATE, **(env or {}))
    r = subprocess.run([*prefix, TOOL, *args], capture_output=True, text=True, cwd=cwd, timeout=300, env=environment)
    assert r.returncode == code, f"{args}: exit {r.returncode}, wanted {code}\n{r.stdout}\n{r.stderr}"
    return r


def refused(*args, code, words, name, **more):
    r = tool(*args, code=code, **more)
    assert name in r.stderr and all(w in r.stderr for w in words), r.stderr


def digest(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def database(tmp):
    """Locks and engines of the next checks come from here too."""
    db, engine, lock = (os.path.join(tmp, n) for n in ("t.db", "d.wfe", "d.lock"))
    common = ("--timing-cache", db, "--threads", "2", "--budget", "8s")
    refused("tune", MODEL, "-o", engine, "--require-cached", *common, code=9, name="WF-0902",
            words=["has no time of", "nothing was ever measured"])
    first = json.loads(tool("tune", MODEL, "-o", engine, "--lock", lock, "--json", *common).stdout)
    assert first["timings"]["measured"] > 0 and first["timings"]["misses"]["new_problem"] > 20, first["timings"]
    wanted = digest(engine)
    again = json.loads(tool("tune", MODEL, "-o", engine, "--require-cached", "--json", *common).stdout)
    assert again["timings"]["measured"] == 0 and again["timings"]["reused"] > 0 and again["recalled"], again
    assert digest(engine) == wanted                              # what was recalled is what was tuned
    threads = json.loads(tool("tune", MODEL, "-o", engine + "1", "--json", "--timing-cache", db, "--threads", "1",
                              "--budget", "1s").stdout)
    assert threads["timings"]["misses"]["other_threads"] > 0, threads["timings"]
    # Rows that are too old are used, and measured again where that can change the route.
    import sqlite3
    con = sqlite3.connect(db)
    con.executescript("UPDATE timing SET day=1000; DELETE FROM outcome")
    con.close()
    old = json.loads(tool("tune", MODEL, "-o", engine + "4", "--json", *common).stdout)["timings"]
    assert old["misses"]["old"] > 0 and old["measured"] > 0 and old["reused"] > 0, old
    # A banned tactic is in no plan any more; taken back, it may be.
    tactic = [l.split()[2] for l in open(lock) if " native/conv" in l][0]
    tool("cache", "ban", tactic, "--timing-cache", db)
    banned = os.path.join(tmp, "banned.lock")
    tool("tune", MODEL, "-o", os.path.join(tmp, "banned.wfe"), "--lock", banned, *common)
    plan = open(banned).read().split("[evidence]")[0]
    assert tactic not in plan.split(), tactic
    tool("cache", "unban", tactic, "--timing-cache", db)
    # A file of a newer version and one that is no database are left as they are.
    newer = os.path.join(tmp, "newer.db")
    con = sqlite3.connect(newer)
    con.executescript("CREATE TABLE x(y); PRAGMA application_id=1464222786; PRAGMA user_version=99")
    con.close()
    before = digest(newer)
    refused("tune", MODEL, "-o", engine + "2", "--timing-cache", newer, "--budget", "1s", code=9, name="WF-0901",
            words=["schema 99"])
    assert digest(newer) == before
    # A damaged one is set aside, and the tuning goes on.
    damaged = os.path.join(tmp, "damaged.db")
    open(damaged, "wb").write(b"SQLite format 3\0" + os.urandom(5000))
    said = tool("tune", MODEL, "-o", engine + "3", "--timing-cache", damaged, "--budget", "1s").stderr
    assert "damaged" in said and os.path.exists(damaged + ".corrupt-1"), said
    return engine, lock


def locks(tmp, engine, lock):
    wanted = digest(engine)
    refused("tune", MODEL, "-o", engine, "--lock", lock, code=2, words=["--force"], name="WF-0205")
    settings = [({"TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8"}, "1"), ({"LC_ALL": "C", "HOME": tmp}, "2"), ({}, "1"),
                ({"WAYFINDER_LOG": "debug"}, "2")]
    stop = threading.Event()

    def load():
        while not stop.is_set():
            sum(range(10000))

    busy = threading.Thread(target=load, daemon=True)
    busy.start()
    for i, (env, threads) in enumerate(settings):
        folder = os.path.join(tmp, f"else where {i}")
        os.mkdir(folder)
        model = os.path.join(folder, f"another name {i}.onnx")
        shutil.copy(MODEL, model)
        prefix = ("taskset", "-c", "0") if i == 2 and shutil.which("taskset") else ()
        tool("build", model, "--lock", lock, "-o", "out.wfe", "--threads", threads, cwd=folder, env=env, prefix=prefix)
        assert digest(os.path.join(folder, "out.wfe")) == wanted, (env, threads)
    stop.set()
    busy.join()
    tool("tune", MODEL, "--locked", lock, "-o", engine)
    other = os.path.join(tmp, "default.wfe")
    tool("build", MODEL, "-o", other, "-k", "memory.reuse=off")
    refused("tune", MODEL, "--locked", lock, "-o", other, code=9, words=["default.wfe", "d.lock"], name="WF-0903")
    text = open(lock).read()
    line = [l for l in text.splitlines() if " native/" in l][0]
    tactic = line.split()[2]

    def changed(old, new):
        path = os.path.join(tmp, "changed.lock")
        assert old in text
        open(path, "w").write(text.replace(old, new))
        return path

    revision = tactic.split("@")[0] + "@99"
    for old, new, words in ((tactic, revision, ["another revision", tactic]), (tactic, "onednn/x@1", ["onednn", "not available"]),
                            ("model ", "model 0", ["model"]), ("version 0", "version 9", ["version"]),
                            ("wayfinder-lock", "something", ["not a lock"]), ("memory.reuse", "memory.rouse", ["memory.rouse"])):
        refused("build", MODEL, "--lock", changed(old, new), "-o", other, code=9, words=words, name="WF-0903")
    refused("build", OTHER, "--lock", lock, "-o", other, code=9, words=["model"], name="WF-0903")


def machines(tmp):
    """An engine's fit, with the machine it was made for changed in its header."""
    for fit, offset in (("exact", 48), ("family", 48), ("portable", None)):
        path = os.path.join(tmp, fit + ".wfe")
        tool("build", MODEL, "-o", path, "--fit", fit)
        assert json.loads(tool("inspect", path, "--json").stdout)["fit"] == fit
        tool("run", path, "--random")
        if offset is None:
            continue
        data = bytearray(open(path, "rb").read())
        data[offset] ^= 0xFF
        open(path, "wb").write(data)
        refused("run", path, "--random", code=7, name="WF-0702", words=["made for", "this machine is", "--archive"])
        tool("run", path, "--random", "--any-machine")
        tool("inspect", path)
    refused("build", MODEL, "--fit", "loose", "-o", os.path.join(tmp, "x.wfe"), code=2, words=["portable"], name="WF-0201")


def archives(tmp):
    """One file from which the engine comes back, here without and elsewhere with the model."""
    engine, archive, out = (os.path.join(tmp, n) for n in ("a.wfe", "a.wfa", "out.wfe"))
    db = ("--timing-cache", os.path.join(tmp, "t.db"))
    tool("tune", MODEL, "-o", engine, "--archive", archive, "--threads", "2", "--budget", "2s", *db)
    tool("build", "--archive", archive, "-o", out)
    assert digest(out) == digest(engine)
    os.remove(out)
    said = json.loads(tool("build", MODEL, "--archive", archive, "-o", out, "--json").stdout)
    assert said["identical"] and digest(out) == digest(engine), said
    # A machine without the tier: refused without the model, rebuilt with it, and told what to measure.
    scalar = ("--isa", "scalar")
    refused("build", OTHER, "--archive", archive, "-o", out, code=9, words=["model"], name="WF-0903")
    said = json.loads(tool("build", MODEL, "--archive", archive, "-o", out, "--json", *scalar).stdout)
    assert not said["identical"] and len(said["decisions_anew"]) > 0, said
    tool("run", out, "--random", *scalar)
    refused("build", "--archive", archive, "-o", out, code=7, words=["name the model"], name="WF-0704",
            env={"WAYFINDER_TIER": "scalar"})
    data = bytearray(open(archive, "rb").read())
    bad = os.path.join(tmp, "bad.wfa")
    for change in (slice(0, 1), slice(100, 101), slice(len(data) - 1, len(data))):
        copy = bytearray(data)
        copy[change] = bytes([copy[change][0] ^ 1])
        open(bad, "wb").write(copy)
        refused("build", "--archive", bad, "-o", out, code=8, words=["bad.wfa"], name="WF-0807")
    open(bad, "wb").write(data[:-1])
    refused("build", "--archive", bad, "-o", out, code=8, words=["cut off"], name="WF-0807")
    text = os.path.join(tmp, "notes.txt")
    open(text, "w").write("keep")
    refused("tune", MODEL, "-o", engine, "--archive", text, "--budget", "1s", *db, code=2, words=["--force"], name="WF-0205")
    assert open(text).read() == "keep"


def advice(tmp):
    seen = json.loads(tool("doctor", "--json", "--duration", "300ms", "--timing-cache", os.path.join(tmp, "t.db")).stdout)
    assert seen["cores"]["default_threads"] >= 1 and seen["noise"]["pairs"] > 0 and seen["database"]["state"] == "sound", seen
    assert {"10s", "1m", "10m"} == set(seen["noise"]["detectable"]) and "scalar" in seen["cpu"]["tiers"]
    assert "detectable" in tool("doctor", "--duration", "100ms", "--timing-cache", os.path.join(tmp, "none.db")).stdout
    nothing = json.loads(tool("advise", MODEL, "--json", "--timing-cache", os.path.join(tmp, "none.db")).stdout)
    assert nothing["expected"] is None and "not known" in nothing["answer"] and nothing["headroom"] >= 1, nothing
    known = json.loads(tool("advise", MODEL, "--json", "--timing-cache", os.path.join(tmp, "t.db"), "--requests", "2M/day",
                            "--price", "3/h", "--p99", "10ms").stdout)
    assert known["like_tunings"] > 0 and known["same_model"] and 0 < known["expected"]["ratio"] <= 1.1, known
    day = 2e6 * known["latency"]["default_ns"] * 1e-9 / 3600
    assert abs(known["economy"]["machine_hours_per_day"] - day) < 1e-6 * day, known
    refused("advise", MODEL, "--requests", "many", code=2, words=["2M/day"], name="WF-0201")
    refused("advise", os.path.join(tmp, "no.onnx"), code=2, words=["no.onnx"], name="WF-0202")


def main():
    tmp = tempfile.mkdtemp()
    try:
        engine, lock = database(tmp)
        locks(tmp, engine, lock)
        machines(tmp)
        archives(tmp)
        advice(tmp)
    finally:
        shutil.rmtree(tmp)
        shutil.rmtree(STATE)
    print(f"{checks} runs of the tool as expected")


if __name__ == "__main__":
    sys.exit(main())
