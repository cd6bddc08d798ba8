#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the model that ships in examples/digits: a small convolutional network that reads handwritten digits.

  pip install numpy onnx scikit-learn
  python bench/models/train_digits.py examples/digits

Data: "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
CC BY 4.0; 1,797 images of 8 x 8 pixels as scikit-learn ships them (sklearn.datasets.load_digits). Every fifth image is
kept for testing. The training is seeded: the same versions of the packages give the same file.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

EPOCHS, BATCH, RATE = 30, 64, 2e-3


def patches(x):
    """3 x 3 windows of zero-padded images: [n, h, w, channels * 9], in the order of ONNX weights [out, in, 3, 3]."""
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    w = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(2, 3))
    return w.transpose(0, 2, 3, 1, 4, 5).reshape(x.shape[0], x.shape[2], x.shape[3], -1)


def conv(x, w, b):
    cols = patches(x)
    y = cols @ w.reshape(w.shape[0], -1).T + b
    return np.maximum(y, 0).transpose(0, 3, 1, 2), cols


def conv_back(grad, y, cols, w, need_input):
    g = (grad * (y > 0)).transpose(0, 2, 3, 1)
    flat = g.reshape(-1, w.shape[0])
    gw = (flat.T @ cols.reshape(flat.shape[0], -1)).reshape(w.shape)
    gx = None
    if need_input:
        gc = (g @ w.reshape(w.shape[0], -1)).reshape(*g.shape[:3], w.shape[1], 3, 3)
        p = np.zeros((g.shape[0], w.shape[1], g.shape[1] + 2, g.shape[2] + 2), np.float32)
        for i in range(3):
            for j in range(3):
                p[:, :, i:i + g.shape[1], j:j + g.shape[2]] += gc[..., i, j].transpose(0, 3, 1, 2)
        gx = p[:, :, 1:-1, 1:-1]
    return gw, flat.sum(0), gx


def pool(x):
    n, c, h, w = x.shape
    t = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = t.max((3, 5))
    return y, t == y[:, :, :, None, :, None]


def forward(p, x):
    a, ca = conv(x, p["w1"], p["b1"])
    b, cb = conv(a, p["w2"], p["b2"])
    q, mask = pool(b)
    f = q.reshape(len(x), -1)
    h = np.maximum(f @ p["w3"] + p["b3"], 0)
    return h @ p["w4"] + p["b4"], (a, ca, b, cb, q, mask, f, h)


def gradients(p, x, t):
    z, (a, ca, b, cb, q, mask, f, h) = forward(p, x)
    e = np.exp(z - z.max(1, keepdims=True))
    gz = e / e.sum(1, keepdims=True)
    gz[np.arange(len(t)), t] -= 1
    gz /= len(t)
    g = {"w4": h.T @ gz, "b4": gz.sum(0)}
    gh = gz @ p["w4"].T * (h > 0)
    g["w3"], g["b3"] = f.T @ gh, gh.sum(0)
    gq = (gh @ p["w3"].T).reshape(q.shape)
    gb = (mask * gq[:, :, :, None, :, None]).reshape(b.shape)
    g["w2"], g["b2"], ga = conv_back(gb, b, cb, p["w2"], True)
    g["w1"], g["b1"], _ = conv_back(ga, a, ca, p["w1"], False)
    return g


def train(x, t):
    r = np.random.default_rng(7)
    shape = {"w1": (16, 1, 3, 3), "w2": (32, 16, 3, 3), "w3": (512, 64), "w4": (64, 10)}
    p = {k: (r.standard_normal(s) * np.sqrt(2 / np.prod(s[1:] if len(s) == 4 else s[:1]))).astype(np.float32)
         for k, s in shape.items()}
    p |= {k: np.zeros(n, np.float32) for k, n in {"b1": 16, "b2": 32, "b3": 64, "b4": 10}.items()}
    m, v, step = {k: 0 * a for k, a in p.items()}, {k: 0 * a for k, a in p.items()}, 0
    for _ in range(EPOCHS):
        order = r.permutation(len(x))
        for i in range(0, len(x), BATCH):
            step += 1
            for k, g in gradients(p, x[order[i:i + BATCH]], t[order[i:i + BATCH]]).items():
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g * g
                p[k] -= (RATE * (m[k] / (1 - 0.9 ** step)) / (np.sqrt(v[k] / (1 - 0.999 ** step)) + 1e-8)).astype(np.float32)
    return p


def model(p):
    nodes = [helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["a1"], "relu1"),
             helper.make_node("Conv", ["a1", "w2", "b2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c2"], ["a2"], "relu2"),
             helper.make_node("MaxPool", ["a2"], ["q"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["q"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "w3", "b3"], ["h"], "hidden"),
             helper.make_node("Relu", ["h"], ["hr"], "relu3"),
             helper.make_node("Gemm", ["hr", "w4", "b4"], ["scores"], "scores")]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
                              [numpy_helper.from_array(a, k) for k, a in p.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="train_digits")


def main():
    out = sys.argv[1]
    d = load_digits()
    x, t = (d.images[:, None] / 16).astype(np.float32), d.target
    test = np.arange(len(x)) % 5 == 0
    p = train(x[~test], t[~test])
    right = (forward(p, x[test])[0].argmax(1) == t[test]).mean()
    onnx.save(model(p), f"{out}/digits.onnx")
    seven = np.flatnonzero(test & (t == 7))[0]
    np.save(f"{out}/seven.npy", x[seven][None])
    print(f"{right:.4f} of {test.sum()} test images right")


if __name__ == "__main__":
    main()
