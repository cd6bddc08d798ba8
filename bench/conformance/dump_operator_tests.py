#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the ONNX operator test cases of the installed `onnx` package (requirements.txt) as folders.

  dump_operator_tests.py OUT [--no-expanded]

OUT/NAME/model.onnx, OUT/NAME/test_data_set_K/{input,output}_I.pb, OUT/NAME/case.json {rtol, atol, domains, ops}
Tensors are TensorProto, sequences SequenceProto, optionals OptionalProto (the type is in the model's input or output).
"""
import json, os, shutil, sys, warnings
import numpy as np
warnings.filterwarnings("ignore")
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def to_proto(value, typ, name):
    kind = typ.WhichOneof("value")
    if isinstance(value, onnx.TensorProto): return value
    if kind == "sequence_type": return numpy_helper.from_list(value, name)
    if kind == "optional_type": return numpy_helper.from_optional(value, name)
    if kind == "map_type": return numpy_helper.from_dict(value, name)
    return numpy_helper.from_array(np.asarray(value), name)


def main():
    out = sys.argv[1]
    skip_expanded = "--no-expanded" in sys.argv
    done = failed = 0
    for case in collect_testcases(None):
        if skip_expanded and "_expanded" in case.name: continue
        folder = os.path.join(out, case.name)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.makedirs(folder)
            onnx.save(case.model, os.path.join(folder, "model.onnx"))
            for k, (inputs, outputs) in enumerate(case.data_sets):
                data = os.path.join(folder, f"test_data_set_{k}")
                os.makedirs(data)
                for prefix, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
                    for i, v in enumerate(values):
                        with open(os.path.join(data, f"{prefix}_{i}.pb"), "wb") as f:
                            f.write(to_proto(v, infos[i].type, infos[i].name).SerializeToString())
            json.dump({"rtol": case.rtol, "atol": case.atol,
                       "domains": sorted({o.domain for o in case.model.opset_import}),
                       "ops": sorted({n.op_type for n in case.model.graph.node})},
                      open(os.path.join(folder, "case.json"), "w"))
            done += 1
        except Exception as e:
            failed += 1
            print("not written:", case.name, type(e).__name__, str(e)[:100], file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{done} written, {failed} not written")


if __name__ == "__main__":
    main()
