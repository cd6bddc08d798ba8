# SPDX-License-Identifier: Apache-2.0
"""The programs that are compared: each times one model in a process of its own and prints its median in ms."""
import json
import statistics
import subprocess
import sys
import time

import numpy as np

# Models whose integer inputs index a table that is smaller than usual.
VOCABULARY = {"magika": 200}


def inputs_of(path, name, shapes, seed=0):
    """Seeded inputs of a model, by name."""
    import onnx

    rng = np.random.default_rng(seed)
    model = onnx.load(path, load_external_data=False)
    constants = {t.name for t in model.graph.initializer}
    made = {}
    for port in model.graph.input:
        if port.name in constants:
            continue
        tensor = port.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else 1 for d in tensor.shape.dim]
        dims = shapes.get(name, {}).get(port.name, dims)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if port.name == "sr":
            made[port.name] = np.array(16000, dtype)
        elif "mask" in port.name:
            made[port.name] = np.ones(dims, dtype)
        elif np.issubdtype(dtype, np.integer):
            made[port.name] = rng.integers(0, VOCABULARY.get(name, 1000), dims).astype(dtype)
        else:
            made[port.name] = rng.standard_normal(dims).astype(dtype)
    return made


def median_ms(call, seconds):
    for _ in range(5):
        call()
    end = time.perf_counter() + seconds
    times = []
    while time.perf_counter() < end or len(times) < 9:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def time_onnxruntime(path, inputs, threads, seconds):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return median_ms(lambda: session.run(None, inputs), seconds)


def time_openvino(path, inputs, threads, seconds):
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(value.shape) for name, value in inputs.items()})
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    return median_ms(lambda: request.infer(inputs, share_inputs=True, share_outputs=True), seconds)


PEERS = {"onnxruntime": time_onnxruntime, "openvino": time_openvino}


def time_engine(wayfinder, engine, threads, seconds):
    out = subprocess.run([wayfinder, "bench", engine, "--duration", f"{seconds}s", "--threads", str(threads), "--json"],
                         capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["engines"][0]["p50_ns"] / 1e6


def time_peer(peer, path, name, threads, seconds):
    out = subprocess.run([sys.executable, __file__, peer, path, name, str(threads), str(seconds)],
                         capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(f"{peer} on {name}: {out.stderr.strip().splitlines()[-1]}")
    return float(out.stdout.split()[-1])


def canary_ms():
    """A fixed piece of f32 work of a few ms on all cores: what the machine gives at this moment."""
    a = canary_ms.a
    return min(_timed(lambda: a @ a) for _ in range(5))


def _timed(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


canary_ms.a = np.random.default_rng(0).standard_normal((768, 768), dtype=np.float32)

if __name__ == "__main__":
    import pathlib

    known_shapes = json.loads((pathlib.Path(__file__).parent.parent / "corpus/shapes.json").read_text())
    which, model_path, model_name, thread_count, duration = sys.argv[1:6]
    feeds = inputs_of(model_path, model_name, known_shapes)
    print(PEERS[which](model_path, feeds, int(thread_count), float(duration)))
