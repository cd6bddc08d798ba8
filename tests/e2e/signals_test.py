#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals to a tuning: one stops it with an engine and the way to go on, two end it at once, none leaves a worker."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = os.environ["WF_TEST_SOURCE_DIR"]
BUILD = os.environ["WF_TEST_BUILD_DIR"]
TOOL = os.path.join(BUILD, "wayfinder")
MODEL = os.path.join(SOURCE, "examples/digits/digits.onnx")


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(name))
    return found


def gone(pids):
    for _ in range(50):
        if not any(os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0]
                   != "Z" for pid in pids):
            return True
        time.sleep(0.1)
    return False


def start(folder, *more):
    environment = dict(os.environ, XDG_CACHE_HOME=folder, XDG_STATE_HOME=folder)
    engine = os.path.join(folder, "engine.wfe")
    command = [TOOL, "tune", MODEL, "-o", engine, "--budget", "25s", "--strategy", "random", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    workers = []
    for _ in range(200):
        workers = children(process.pid)
        if workers and os.path.exists(engine):
            break
        time.sleep(0.05)
    assert workers and os.path.exists(engine), "no worker, or no default engine, within ten seconds"
    time.sleep(0.5)
    return process, children(process.pid), engine


def check(folder, sent, times):
    process, workers, engine = start(folder)
    for _ in range(times):
        process.send_signal(sent)
    out, err = process.communicate(timeout=30)
    name = signal.Signals(sent).name
    assert process.returncode == 130, f"{name} x{times}: exit {process.returncode}\n{err}"
    assert gone(workers), f"{name} x{times}: a worker is left"
    if times == 1:
        assert "tune" in err and "--budget" in err, f"{name}: no command to go on with:\n{err}"
    assert subprocess.run([TOOL, "verify", engine, "--model", MODEL], capture_output=True, check=False).returncode == 0
    records = os.path.join(folder, "wayfinder", "records")
    lines = [open(os.path.join(records, f), encoding="utf-8").read().splitlines() for f in os.listdir(records)]
    assert lines and all(json.loads(line) for line in lines[0]), f"{name}: the record cannot be read"


def check_pipe(folder):
    """Whoever reads leaves: the tuning goes on to its end and writes."""
    process, workers, engine = start(folder, "--trials", "40")
    process.stderr.close()
    process.stdout.close()
    process.wait(timeout=40)
    assert process.returncode in (0, 10), f"SIGPIPE: exit {process.returncode}"
    assert gone(workers), "SIGPIPE: a worker is left"
    assert subprocess.run([TOOL, "verify", engine, "--model", MODEL], capture_output=True, check=False).returncode == 0


def main():
    if not os.path.exists(TOOL):
        print("SKIPPED: no tool in this build")
        return 77
    for sent, times in ((signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, sent, times)
    with tempfile.TemporaryDirectory() as folder:
        check_pipe(folder)
    print("5 cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
