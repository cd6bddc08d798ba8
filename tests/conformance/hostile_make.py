#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_make.py OUT: hostile models that are too large to keep in the tree.

  chain_million.onnx            a million nodes in a row
  attribute_type_mismatch.onnx  a Conv whose strides are a string and whose pads have ten million entries
"""
import os
import sys


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def value(name, dims):
    shape = b"".join(block(1, number(1, dim)) for dim in dims)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def model(nodes, dims, constants=()):
    graph = [block(1, node) for node in nodes] + [block(2, "g")] + [block(5, tensor) for tensor in constants]
    graph += [block(11, value("x", dims)), block(12, value("y", dims))]
    return number(1, 8) + block(7, b"".join(graph)) + block(8, block(1, "") + number(2, 17))


def chain_million():
    count = 1000000
    names = ["x"] + ["t%d" % i for i in range(1, count)] + ["y"]
    return model([block(1, a) + block(2, b) + block(4, "Neg") for a, b in zip(names, names[1:])], (4,))


def attribute_type_mismatch():
    strides = block(1, "strides") + block(4, "two") + number(20, 3)
    pads = block(1, "pads") + block(8, b"\1" * 10**7) + number(20, 7)
    conv = block(1, "x") + block(1, "w") + block(2, "y") + block(4, "Conv") + block(5, strides) + block(5, pads)
    weights = number(1, 1) * 4 + number(2, 1) + block(8, "w") + block(9, bytes(4))
    return model([conv], (1, 1, 3, 3), [weights])


for make in (chain_million, attribute_type_mismatch):
    with open(os.path.join(sys.argv[1], make.__name__ + ".onnx"), "wb") as file:
        file.write(make())
