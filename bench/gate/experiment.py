#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the gate is right on real engines: A/A, and engines made slower by worse tactics.

    bench/gate/experiment.py MODEL.onnx [--minutes 30] [--wayfinder build/release/wayfinder] [--folder DIR]

Tunes the model, then makes slower engines from its lock: steps get the runner-up of their evidence, until the engine
is slower by about the wanted share. What they really are slower by is measured first, in a comparison of its own
(wayfinder bench). Then gates run in turn until the time is over. Prints a table with 95 % Wilson intervals."""
import argparse, json, math, os, statistics, subprocess, sys, tempfile, time

WANTED = (0.02, 0.05)


def run(*args, check=True):
    r = subprocess.run(args, capture_output=True, text=True)
    if check and r.returncode not in (0, 3):
        sys.exit(f"failed ({r.returncode}): {' '.join(args)}\n{r.stdout}{r.stderr}")
    return r


def ratio(tool, a, b, seconds=8):
    pair = json.loads(run(tool, "bench", a, b, "--duration", f"{seconds}s", "--json", "-q").stdout)["pairs"][0]
    return pair["ratio"], pair["lo95"], pair["hi95"]


def evidence(lock):
    """[(loss_ns, plan key, chosen, runner-up)]: what each step would lose with its runner-up, largest first."""
    head, _, tail = lock.partition("[evidence]\n")
    rows = []
    for line in tail.splitlines():
        parts = line.rsplit(" ", 6)
        if len(parts) == 7 and parts[2] != "-" and int(parts[3]) > int(parts[1]):
            rows.append((int(parts[3]) - int(parts[1]), parts[0], parts[2]))
    return head, sorted(rows, reverse=True)


def worse_lock(head, rows, loss_ns):
    lines, left, used = head.split("\n"), loss_ns, 0
    for loss, name, tactic in rows:
        if loss > left:
            continue
        for i, line in enumerate(lines):
            if line.startswith(name + " ") and len(line[len(name) + 1:].split(" ")) >= 2:
                problem, _, *rest = line[len(name) + 1:].split(" ")
                lines[i] = " ".join([name, problem, tactic, *rest])
                left, used = left - loss, used + 1
                break
    return "\n".join(lines), used


def slower_engine(tool, model, base, lock, share, folder):
    """An engine whose measured slow-down is near `share`, with its interval; None when none can be made."""
    head, rows = evidence(lock)
    total = sum(s["median_ns"] for s in json.loads(run(tool, "explain", base, "--json").stdout)["steps"])
    factor, best, banned = 1.0, None, set()
    for attempt in range(8):
        text, used = worse_lock(head, [r for r in rows if r[1] not in banned], factor * share * total)
        path, engine = os.path.join(folder, "slow.lock"), os.path.join(folder, f"slow{share}.{attempt}.wfe")
        open(path, "w").write(text)
        r = run(tool, "build", model, "--lock", path, "-o", engine, "--force", "-q", check=False)
        if r.returncode != 0 or used == 0:
            # A runner-up in another layout does not fit its neighbours: leave out what the message names.
            named = [row[1] for row in rows if row[1] not in banned and row[1] in r.stderr]
            banned.update(named or [row[1] for row in rows if row[1] not in banned][:1])
            continue
        found = ratio(tool, base, engine)
        if best is None or abs(found[0] - 1 - share) < abs(best[1][0] - 1 - share):
            best = (engine, found)
        if abs(found[0] - 1 - share) < 0.1 * share:
            break
        factor *= min(max(share / max(found[0] - 1, share / 4), 0.4), 2.5)
    return best


def wilson(hits, n, z=1.96):
    p, d = hits / n, 1 + z * z / n
    mid, half = (p + z * z / (2 * n)) / d, z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d
    return max(mid - half, 0), min(mid + half, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model"), p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--wayfinder", default="build/release/wayfinder"), p.add_argument("--folder")
    p.add_argument("--tune-budget", default="60s"), p.add_argument("--budget", default="60s")
    a = p.parse_args()
    folder = a.folder or tempfile.mkdtemp(prefix="wayfinder-gate-")
    os.makedirs(folder, exist_ok=True)
    base, lock = os.path.join(folder, "base.wfe"), os.path.join(folder, "base.lock")
    run(a.wayfinder, "tune", a.model, "-o", base, "--lock", lock, "--force", "--fresh", "--budget", a.tune_budget, "-q",
        "--timing-cache", os.path.join(folder, "timings.db"), "--record", os.path.join(folder, "record.jsonl"))
    cases = [("A/A", base, (1, 1, 1))]
    for share in WANTED:
        made = slower_engine(a.wayfinder, a.model, base, open(lock).read(), share, folder)
        if made is None:
            print(f"no engine {100 * share:g} % slower could be made from this lock")
        else:
            cases.append((f"{100 * share:g} % slower", *made))
    tally = {name: {"seconds": []} for name, _, _ in cases}
    end = time.time() + 60 * a.minutes
    while time.time() < end:
        for name, engine, _ in cases:
            start = time.time()
            r = run(a.wayfinder, "gate", engine, "--baseline", base + ".baseline.json", "--budget", a.budget, "--json", "-q",
                    "--seed", str(int(start)), check=False)
            report = json.loads(r.stdout)
            verdict = report.get("verdict", f"error {r.returncode}")
            tally[name][verdict] = tally[name].get(verdict, 0) + 1
            tally[name]["seconds"].append(time.time() - start)
    print("| engine | measured ratio | gates | passed | improved | regressed (95 %) | inconclusive | median s |")
    print("|---|---|---:|---:|---:|---|---:|---:|")
    for name, _, found in cases:
        t = tally[name]
        n, hits = len(t["seconds"]), t.get("regressed", 0)
        if n == 0:
            continue
        low, high = wilson(hits, n)
        print(f"| {name} | {found[0]:.4f} [{found[1]:.4f}, {found[2]:.4f}] | {n} | {t.get('passed', 0)} | "
              f"{t.get('improved', 0)} | {hits} ({100 * low:.1f} to {100 * high:.1f} %) | {t.get('inconclusive', 0)} | "
              f"{statistics.median(t['seconds']):.1f} |")
        odd = {k: v for k, v in t.items() if k.startswith("error")}
        if odd:
            print(f"  {name}: {odd}")


if __name__ == "__main__":
    main()
