"""The files that ``fuzz.files`` edits: small models as artefacts of every kind, with what each computes.

``python -m fuzz.files.seeds FOLDER`` makes them: for each kind ``<kind>.byoc`` and ``<kind>.npz`` with its inputs
(``in_0``, …) and outputs (``out_0``, …), plans, boundary files and whatever else byoc reads. In a process of its own,
since whoever forks must not have opened a device.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.annex.node_json import save_json
from byoc.contract.registration import get_backend
from byoc.driver.vm import compile_module
from byoc.runtime import cpu
from byoc.runtime.library import Library
from byoc.runtime.params import save_param_dict
from byoc.runtime.vm import VirtualMachine

RNG = np.random.default_rng(0)


def model(batch: int | str = 2) -> ModelProto:
    """Conv, Relu, MaxPool, Flatten, Gemm and Softmax on 1x8x8 images."""
    weights = {
        "w": RNG.standard_normal((4, 1, 3, 3)),
        "b": RNG.standard_normal(4),
        "g": RNG.standard_normal((16, 5)),
        "c": RNG.standard_normal(5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], "relu"),
        helper.make_node("MaxPool", ["relu"], ["pool"], "pool", kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["pool"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "g", "c"], ["gemm"], "gemm"),
        helper.make_node("Softmax", ["gemm"], ["y"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def vm_module() -> byoc.IRModule:
    """A recursive sum, a closure, a product with a weight, and an operator whose shape is known afterwards."""
    number = relay.TensorType((), "int32")
    loop, i, total = relay.GlobalVar("loop"), relay.var("i", number), relay.var("total", number)
    again = relay.Call(loop, [relay.subtract(i, relay.const(1)), relay.add(total, i)])
    module = relay.IRModule(
        {loop: relay.Function([i, total], relay.If(relay.greater(i, relay.const(0)), again, total), number)}
    )
    n, k, x = relay.var("n", number), relay.var("k", number), relay.var("x", shape=(relay.Any("N"), 3))
    closure = relay.Function([k], relay.add(k, n))
    product = relay.nn.dense(x, relay.const(np.arange(6, dtype="float32").reshape(2, 3)))
    sums = relay.Call(closure, [relay.Call(loop, [n, relay.const(0)])])
    module["main"] = relay.Function([n, x], relay.Tuple([sums, product, relay.argwhere(x)]))
    return module


def libraries() -> dict[str, Callable[[], Library]]:
    """How the artefact of each kind is compiled."""
    samples = [{"x": RNG.standard_normal((2, 1, 8, 8)).astype("float32")} for _ in range(4)]
    found: dict[str, Callable[[], Library]] = {
        "c": lambda: byoc.compile(model()),
        "c_sizes": lambda: byoc.compile(model("N")),
        "json": lambda: byoc.compile(model(), ["json"]),
        "json_sizes": lambda: byoc.compile(model("N"), ["json"], exclude=["pool"]),
        "mixed": lambda: byoc.compile(model(), ["json", "c"], exclude=["nn.softmax", "nn.max_pool2d"]),
        "fallback": lambda: byoc.compile(model(), ["json", "c"], exclude=["nn.max_pool2d"], fallback=True),
        "blas": lambda: byoc.compile(model(), ["blas", "c"]),
        "bf16": lambda: byoc.compile(model(), precision="bf16"),
        "int8": lambda: byoc.compile(model(), precision="int8", calibration=samples),
    }
    if get_backend("opencl").unavailable() is None:
        found["opencl"] = lambda: byoc.compile(model(), ["opencl", "c"])
        found["opencl_sizes"] = lambda: byoc.compile(model("N"), ["opencl", "c"], fallback=True)
    return found


def keep(folder: Path, kind: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Write what the artefact of *kind* was given and gave."""
    arrays: Mapping[str, np.ndarray] = {
        **{f"in_{k}": a for k, a in enumerate(inputs)},
        **{f"out_{k}": a for k, a in enumerate(outputs)},
    }
    np.savez(folder / f"{kind}.npz", **arrays)


def make(folder: Path) -> None:
    """Every file into *folder*."""
    image = RNG.standard_normal((2, 1, 8, 8)).astype("float32")
    for kind, compiled in libraries().items():
        library = byoc.runtime.load(compiled().save(folder / f"{kind}.byoc"))
        keep(folder, kind, [image], library.run({"x": image}))
    executable = compile_module(vm_module())
    executable.mod.export_library(folder / "vm.byoc")
    given = [np.asarray(10, "int32"), np.array([[1, 0, 2]], "float32")]
    keep(folder, "vm", given, [part.numpy() for part in VirtualMachine(executable, cpu()).run(*given)])
    others = folder / "others"
    others.mkdir()
    (others / "code.vm").write_bytes(executable.save()[0])
    plan = byoc.plan(model(), ["json", "c"], policy="cost")
    (others / "plan.json").write_text(json.dumps(plan.to_json()), encoding="utf-8")
    (others / "rules.boundaries").write_text(
        "# at home\nexclude conv\nexclude gemm from json\nforce pool to json\nstop_at flat\nmaxpool:relu:pool\n"
    )
    (others / "rules_json.boundaries").write_text(
        json.dumps({"exclude": {"json": ["conv"]}, "force": {"json": ["pool"]}, "stop_at": ["flat"]})
    )
    np.savez(others / "samples.npz", x=np.stack([image, image]))
    np.save(others / "sample.npy", image)
    (others / "weights.params").write_bytes(save_param_dict({"w": image, "n": np.arange(3, dtype="int64")}))
    (others / "graph.relay").write_text(relay_json(), encoding="utf-8")
    prices = {"nn.conv2d": {"per_operation": 1e-9, "per_byte": 1e-10}, "nn.relu": {"seconds": 1e-6}}
    table = {
        "format": "byoc.costs/1",
        "operators": prices,
        "launch": 1e-5,
        "transfer": {"latency": 1e-6, "upload": 1e9},
    }
    (others / "table.json").write_text(json.dumps(table), encoding="utf-8")
    (others / "model.onnx").write_bytes(model().SerializeToString())


def relay_json() -> str:
    """A module in Relay's JSON of nodes."""
    x = relay.var("x", shape=(2, 3))
    return save_json(byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.add(x, relay.const(1.0))))))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
