#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Search quality: strategies against each other on sub-graphs of real models, at equal wall-clock.

    search_quality.py --wayfinder build/release/wayfinder --models DIR --minutes 60 [--subgraphs 10] [--out results.json]

Sub-graphs are cut from the ONNX files of DIR (needs the onnx package): runs of consecutive nodes around places spread
over each model. For each, every strategy tunes from an empty timing database within the same budget, `joint` also with
four times as much (the reference for "best known"). Then all engines of a sub-graph run interleaved in one process, on
blocks that chose nothing (`wayfinder bench`), and regret is the time over that of the fastest of them, less one.

What it is not: an exhaustive oracle. Regrets are relative to the best engine that any strategy found, which is measured
on fresh blocks, so the best is not flattered by its own selection, but a better route that nobody found stays unseen.
A load average above half a CPU at the start or end of a sub-graph is recorded and shown: such rows prove little.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

STRATEGIES = ["joint", "mixed", "fast", "greedy", "random"]


def run_json(command, timeout):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, None


def subgraphs(folder, wanted, nodes, seed):
    """Yields (name, path) of sub-graphs with fixed shapes, one model after the other."""
    import onnx
    from onnx import shape_inference, utils

    paths = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".onnx"))
    rng = random.Random(seed)
    rng.shuffle(paths)
    found = 0
    for path in paths:
        if found >= wanted or os.path.getsize(path) > 200 << 20:
            continue
        model = onnx.load(path)
        try:
            model = shape_inference.infer_shapes(model)
        except Exception as error:  # a model that cannot be inferred is skipped by name
            print(f"skipped {path}: {error}", file=sys.stderr)
            continue
        fixed = {v.name for v in list(model.graph.value_info) + list(model.graph.input)
                 if v.type.tensor_type.HasField("shape")
                 and all(d.dim_value > 0 for d in v.type.tensor_type.shape.dim)}
        constants = {t.name for t in model.graph.initializer}
        body = [n for n in model.graph.node if n.op_type != "Constant"]
        constants |= {o for n in model.graph.node if n.op_type == "Constant" for o in n.output}
        for attempt in range(12):
            first = rng.randrange(max(len(body) - nodes, 1))
            piece = body[first:first + nodes]
            made = {o for n in piece for o in n.output}
            inputs = sorted({i for n in piece for i in n.input if i and i not in made and i not in constants})
            used = {i for n in body[first + nodes:] for i in n.input} | {o.name for o in model.graph.output}
            outputs = sorted(o for o in made if o in used)
            heavy = sum(n.op_type in ("Conv", "MatMul", "Gemm") for n in piece)
            if not inputs or not outputs or heavy < 2 or not set(inputs + outputs) <= fixed:
                continue
            target = os.path.join(tempfile.gettempdir(), f"search_quality_{os.getpid()}_{found}.onnx")
            inferred = target + ".whole"
            onnx.save(model, inferred)
            try:
                utils.extract_model(inferred, target, inputs, outputs)
            except Exception as error:
                print(f"attempt {attempt} on {path}: {error}", file=sys.stderr)
                continue
            finally:
                os.remove(inferred)
            found += 1
            yield f"{os.path.basename(path)[:-5]}[{first}:{first + nodes}]", target
            break


def tune(tool, model, engine, strategy, budget, folder, threads):
    database = os.path.join(folder, f"{strategy}.{budget}.db")
    command = [tool, "tune", model, "-o", engine, "--force", "--fresh", "--budget", f"{budget}s", "--strategy", strategy,
               "--timing-cache", database, "--record", engine + ".record", "--threads", str(threads), "--json"]
    code, report = run_json(command, budget * 3 + 60)
    return code in (0, 3) and report is not None, report


def compare(tool, engines, seconds):
    """Times of all engines, interleaved, relative to the first: ratio and 95 % bounds of each."""
    code, report = run_json([tool, "bench", *engines, "--duration", f"{seconds}s", "--json"], 60 + 4 * seconds * len(engines))
    if code != 0 or report is None:
        return None
    pairs = report.get("pairs") or report.get("comparisons") or []
    ratios = {0: (1.0, 1.0, 1.0)}
    for pair in pairs:
        if pair.get("a") in (0, engines[0]):
            b = pair["b"] if isinstance(pair["b"], int) else engines.index(pair["b"])
            ratios[b] = (pair["ratio"], pair.get("lo95", pair["ratio"]), pair.get("hi95", pair["ratio"]))
    return ratios if len(ratios) == len(engines) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wayfinder", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--subgraphs", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="search_quality.json")
    options = parser.parse_args()
    end = time.time() + 60 * options.minutes
    shares = len(STRATEGIES) + 4 + 1.5
    budget = max(int(60 * options.minutes / options.subgraphs / shares), 5)
    rows = []
    for name, model in subgraphs(options.models, options.subgraphs, options.nodes, options.seed):
        if time.time() + budget * shares > end and rows:
            print(f"out of time after {len(rows)} sub-graphs", file=sys.stderr)
            break
        with tempfile.TemporaryDirectory() as folder:
            load = os.getloadavg()[0]
            runs = [(s, budget) for s in STRATEGIES] + [("joint", 4 * budget)]
            random.Random(options.seed + len(rows)).shuffle(runs)
            engines, labels = [], []
            for strategy, seconds in runs:
                engine = os.path.join(folder, f"{strategy}{seconds}.wfe")
                good, _ = tune(options.wayfinder, model, engine, strategy, seconds, folder, options.threads)
                if good:
                    engines.append(engine)
                    labels.append(strategy if seconds == budget else "joint, 4x")
            ratios = compare(options.wayfinder, engines, max(budget / 4, 2)) if len(engines) > 1 else None
            if ratios is not None:
                best = min(r[0] for r in ratios.values())
                regret = {labels[i]: 100 * (r[0] / best - 1) for i, r in ratios.items()}
                rows.append({"subgraph": name, "regret": regret, "load": max(load, os.getloadavg()[0])})
                text = "  ".join(f"{k} {v:6.2f} %" for k, v in sorted(regret.items()))
                print(f"{name:44} {text}{'   BUSY' if rows[-1]['load'] > 0.5 * (os.cpu_count() or 1) else ''}", flush=True)
            else:
                print(f"{name:44} not compared: {len(engines)} engines", flush=True)
        os.remove(model)
    labels = sorted({k for row in rows for k in row["regret"]})
    summary = {}
    print(f"\n{'strategy':12} {'median':>8} {'mean':>8} {'P(<1 %)':>8}   of {len(rows)} sub-graphs, {budget} s each")
    for label in labels:
        values = [row["regret"][label] for row in rows if label in row["regret"]]
        below = sum(v < 1 for v in values) / len(values)
        summary[label] = {"median": statistics.median(values), "mean": statistics.fmean(values), "below_1": below,
                          "count": len(values)}
        print(f"{label:12} {summary[label]['median']:7.2f}% {summary[label]['mean']:7.2f}% {below:8.2f}")
    busy = sum(row["load"] > 0.5 * (os.cpu_count() or 1) for row in rows)
    if busy:
        print(f"{busy} of {len(rows)} rows were measured on a busy machine: repeat them")
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"schema_version": 1, "budget_s": budget, "rows": rows, "summary": summary, "busy": busy}, file, indent=1)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
