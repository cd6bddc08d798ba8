#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare Wayfinder with ONNX Runtime and OpenVINO in FP32.

  python3 -m venv build/peers && build/peers/bin/pip install -r bench/requirements.txt
  build/peers/bin/python bench/corpus/materialize.py build/corpus
  build/peers/bin/python bench/peers/compare.py build/corpus [MODEL ...] [--tune 40s] [--rounds 5] [--output NAME]

Each program runs alone, in turn, for --seconds; a round is one turn of each, in an order that rotates. The ratio of a
round is our median over that of the faster peer of the same round; the table gives the median over rounds and, as its
spread, the smallest and largest. A canary (a matrix product of fixed size) runs before each turn: a round in which it
was more than --canary slower than the best of the session is thrown away and repeated, at most as many times as there
are rounds. --output writes bench/results/NAME.md and NAME.json.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADLINE = ("resnet50 mobilenet_v3_large efficientnet_b0 efficientnet_lite0 densenet121 convnext_tiny minilm_l6_128 "
            "bert_base_128 vit_b_16 ddddocr_det").split()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=pathlib.Path, help="folder of MODEL.onnx")
    parser.add_argument("models", nargs="*", help="default: all of the folder")
    parser.add_argument("--wayfinder", default=str(ROOT / "build/release/wayfinder"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one turn")
    parser.add_argument("--tune", metavar="BUDGET", help="compare a tuned engine too")
    parser.add_argument("--isa", help="limit our kernels to this CPU tier")
    parser.add_argument("--canary", type=float, default=0.15, help="how much slower it may be")
    parser.add_argument("--output", metavar="NAME")
    return parser.parse_args()


def environment(args):
    def first(path, key):
        with open(path) as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "unknown")

    import importlib.metadata as metadata

    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {"date": datetime.date.today().isoformat(), "cpu": first("/proc/cpuinfo", "model name"),
            "cores": len(os.sched_getaffinity(0)), "threads": args.threads, "kernel": platform.release(),
            "load": os.getloadavg()[0], "commit": commit.stdout.strip(), "isa": args.isa or "all",
            **{name: metadata.version(name) for name in programs.PEERS}}


def make_engine(args, verb, model, shapes, folder):
    engine = folder / f"{model}.{verb}.wfe"
    command = [args.wayfinder, verb, str(args.corpus / f"{model}.onnx"), "-o", str(engine), "--force",
               "--threads", str(args.threads), "--json"]
    command += [text for name, dims in shapes.get(model, {}).items() if dims
                for text in ("--shape", f"{name}={'x'.join(map(str, dims))}")]
    command += ["--isa", args.isa] if args.isa else []
    command += ["--budget", args.tune, "--fresh"] if verb == "tune" else []
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode not in (0, 3):
        reason = json.loads(made.stdout or "{}").get("error", {}).get("message", made.stderr.strip())
        return None, f"refused ({made.returncode}): {reason}"
    return str(engine), None


class Session:
    """Rounds over the programs, and the best canary so far."""

    def __init__(self, args):
        self.args = args
        self.best_canary_ms = math.inf

    def round(self, turns, first):
        """One turn of each program, beginning with the one numbered `first`. None: the machine was disturbed."""
        names = list(turns)
        times, canaries = {}, []
        for i in range(len(names)):
            name = names[(first + i) % len(names)]
            canaries.append(programs.canary_ms())
            times[name] = turns[name]()
        canaries.append(programs.canary_ms())
        self.best_canary_ms = min(self.best_canary_ms, *canaries)
        return times if max(canaries) <= self.best_canary_ms * (1 + self.args.canary) else None

    def rounds(self, turns):
        kept, dropped = [], 0
        while len(kept) < self.args.rounds and dropped < 2 * self.args.rounds:
            times = self.round(turns, len(kept) + dropped)
            if times is None:
                dropped += 1
            else:
                kept.append(times)
        return kept, dropped


def compare_model(args, session, model, shapes, folder):
    turns, row = {}, {"model": model}
    for verb in ["build"] + (["tune"] if args.tune else []):
        engine, problem = make_engine(args, verb, model, shapes, folder)
        if problem:
            return {**row, "problem": problem}
        label = {"build": "default", "tune": "tuned"}[verb]
        turns[label] = lambda e=engine: programs.time_engine(args.wayfinder, e, args.threads, args.seconds)
    ours = list(turns)
    path = str(args.corpus / f"{model}.onnx")
    for peer in programs.PEERS:
        turns[peer] = lambda p=peer: programs.time_peer(p, path, model, args.threads, args.seconds)
    kept, dropped = session.rounds(turns)
    row["dropped_rounds"] = dropped
    if not kept:
        return {**row, "problem": "the machine was never calm enough"}
    row["ms"] = {name: [times[name] for times in kept] for name in turns}
    for label in ours:
        ratios = [times[label] / min(times[peer] for peer in programs.PEERS) for times in kept]
        row[label] = {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    return row


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def table(rows, labels, setting):
    programs_shown = labels + list(programs.PEERS)
    lines = [f"# FP32 against peers, {setting['date']}", ""]
    lines += [f"- {key}: {value}" for key, value in setting.items()]
    lines += ["", "Medians in ms; the ratio is ours over the faster peer of the same round, median (smallest to largest).", "",
              "| model | " + " | ".join(programs_shown + [f"{label} / peer" for label in labels]) + " |",
              "|---|" + "---|" * (len(programs_shown) + len(labels))]
    for row in rows:
        if "problem" in row:
            lines.append(f"| {row['model']} | {row['problem']} |" + " |" * (len(programs_shown) + len(labels) - 1))
            continue
        cells = [f"{statistics.median(row['ms'][name]):.2f}" for name in programs_shown]
        cells += [f"{row[label]['ratio']:.3f} ({row[label]['low']:.2f} to {row[label]['high']:.2f})" for label in labels]
        lines.append(f"| {row['model']} | " + " | ".join(cells) + " |")
    for title, chosen in (("all models", None), ("the ten of the headline", HEADLINE)):
        picked = [row for row in rows if "problem" not in row and (chosen is None or row["model"] in chosen)]
        if picked:
            means = ", ".join(f"{label} {geometric_mean([r[label]['ratio'] for r in picked]):.3f}"
                              f" (worst {max(r[label]['ratio'] for r in picked):.2f})" for label in labels)
            lines.append(f"\nGeometric mean over {len(picked)} models ({title}): {means}")
    return "\n".join(lines) + "\n"


def main():
    args = arguments()
    shapes = json.loads((ROOT / "bench/corpus/shapes.json").read_text())
    models = args.models or sorted(path.stem for path in args.corpus.glob("*.onnx"))
    folder = ROOT / "build/peers-engines"
    folder.mkdir(parents=True, exist_ok=True)
    setting = environment(args)
    labels = ["default"] + (["tuned"] if args.tune else [])
    session, rows = Session(args), []
    for model in models:
        rows.append(compare_model(args, session, model, shapes, folder))
        row = rows[-1]
        print(model, row.get("problem") or ", ".join(
            f"{label} {row[label]['ratio']:.3f} ({row[label]['low']:.2f} to {row[label]['high']:.2f})" for label in labels),
            file=sys.stderr, flush=True)
    text = table(rows, labels, setting)
    print(text)
    if args.output:
        target = ROOT / "bench/results" / args.output
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".md").write_text(text)
        target.with_suffix(".json").write_text(json.dumps({"environment": setting, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
