"""How long the graph layer takes to cut large models, and how that grows: ``python -m benchmarks.plan.partition``.

Three families of ONNX models of a given number of operators are imported, typed and partitioned between two
accelerators that take alternate runs of ten operators. Chain: each operator reads the one before it. Layered: rows of
100, each operator reads two of the row above. Transformer: one encoder block repeated. The pattern table has 20 rows,
ten for each accelerator, with checks. Printed for each family: seconds a step for each size, and how many times
longer the largest size takes than the smallest. Nothing is run, so shapes are small; times depend on the machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from byoc import relay
from byoc.ir import IRModule, span_names
from byoc.relay import transform
from byoc.relay.dataflow_pattern import DFPattern, is_op, wildcard
from byoc.relay.op.contrib.register import TARGET_PREDICATES

RUN, WIDTH, SIDE = 10, 100, 4
TARGETS = ("even", "odd")
UNARY = ("Relu", "Tanh", "Sigmoid", "Exp", "Abs", "Sqrt")
BINARY = ("Add", "Mul", "Sub", "Max")
Check = Callable[[relay.Expr], bool]
Row = tuple[str, DFPattern, Check]


class Graph:
    """An ONNX graph under construction: operator number *i* is called ``n<i>``, and so is its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []

    def add(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """Append one operator; returns its output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The finished model: one input ``x`` and two weights, all f32[SIDE, SIDE]."""

        def value(name: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIDE, SIDE])

        weights = [numpy_helper.from_array(np.eye(SIDE, dtype=np.float32), name) for name in ("w", "v")]
        graph = helper.make_graph(self.nodes, "benchmark", [value("x")], [value(o) for o in outputs], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def chain(size: int) -> onnx.ModelProto:
    """*size* operators one after another; every second one also reads the model's input."""
    graph, value = Graph(), "x"
    rng = np.random.default_rng(0)
    for i in range(size):
        kind = int(rng.integers(12))
        value = graph.add(BINARY[kind % 4], value, "x") if i % 2 else graph.add(UNARY[kind % 6], value)
    return graph.model([value])


def layered(size: int) -> onnx.ModelProto:
    """Rows of WIDTH operators; each reads its own column and the next but six of the row above."""
    graph = Graph()
    row = ["x"] * WIDTH
    for depth in range(size // WIDTH):
        kinds = [BINARY[(depth + i // RUN) % 4] for i in range(WIDTH)]
        row = [graph.add(kinds[i], row[i], row[(i + 7) % WIDTH]) for i in range(WIDTH)]
    return graph.model(row)


def transformer(size: int) -> onnx.ModelProto:
    """An encoder block of 20 operators, again and again: attention, two normalisations, a feed-forward net."""
    graph, x = Graph(), "x"
    for _ in range(size // 20):
        q, k, v = (graph.add("Add", graph.add("MatMul", x, "w"), "v") for _ in range(3))
        scores = graph.add("Mul", graph.add("MatMul", q, graph.add("Transpose", k, perm=[1, 0])), "v")
        context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
        x = _normalised(graph, graph.add("Add", graph.add("Add", graph.add("MatMul", context, "w"), "v"), x))
        hidden = graph.add("Relu", graph.add("Add", graph.add("MatMul", x, "w"), "v"))
        x = graph.add("Add", hidden, x)
    return graph.model([x])


def _normalised(graph: Graph, x: str) -> str:
    return graph.add("Sub", x, graph.add("ReduceMean", x, axes=[-1], keepdims=1))


FAMILIES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain,
    "layered": layered,
    "transformer": transformer,
}


def is_mine(target: str, expr: relay.Expr) -> bool:
    """True when every ONNX node that *expr* came from lies in a run of *target*."""
    runs = {int(name[1:]) // RUN % 2 for name in span_names(expr.span)}
    return runs == {TARGETS.index(target)}


def _check(target: str) -> Check:
    def check(pre: relay.Expr) -> bool:
        return all(is_mine(target, e) for e in (pre, *pre.args[:1]) if e.span is not None)  # type: ignore[attr-defined]

    return check


def pattern_table() -> list[Row]:
    """Twenty rows: ten shapes of two to four operators for each accelerator."""
    binary, unary = (lambda op: lambda a: is_op(op)(a, wildcard())), (lambda op: lambda a: is_op(op)(a))
    add, mul, sub = binary("add"), binary("multiply"), binary("subtract")
    relu, tanh, sigmoid, exp = unary("nn.relu"), unary("tanh"), unary("sigmoid"), unary("exp")
    x = wildcard
    shapes = {
        "dense_add_relu": lambda: relu(add(is_op("nn.dense")(x(), x()))),
        "dense_add": lambda: add(is_op("nn.dense")(x(), x())),
        "matmul_add": lambda: add(is_op("nn.matmul")(x(), x())),
        "add_relu_mul": lambda: mul(relu(add(x()))),
        "add_relu": lambda: relu(add(x())),
        "mul_tanh": lambda: tanh(mul(x())),
        "sigmoid_mul": lambda: mul(sigmoid(x())),
        "sub_exp": lambda: exp(sub(x())),
        "tanh_add": lambda: add(tanh(x())),
        "mul_add": lambda: add(mul(x())),
    }
    return [(f"{target}.{name}", make(), _check(target)) for target in TARGETS for name, make in shapes.items()]


def steps(model: onnx.ModelProto) -> Iterator[tuple[str, Callable[[IRModule], IRModule]]]:
    """What is timed, in order: a name, and the step from module to module."""
    yield "import", lambda _: relay.frontend.from_onnx(model)[0]
    yield "infer", transform.InferType()
    yield "composite", transform.MergeComposite(pattern_table())
    yield "annotate", transform.AnnotateTarget(list(TARGETS))
    yield "merge", transform.MergeCompilerRegions()
    yield "partition", transform.PartitionGraph()


def measure(model: onnx.ModelProto) -> dict[str, float]:
    """Seconds for each step on *model*, their ``total``, and the number of ``functions`` at the end."""
    seconds: dict[str, float] = {}
    mod = IRModule()
    for name, step in steps(model):
        start = time.perf_counter()
        mod = step(mod)
        seconds[name] = time.perf_counter() - start
    seconds["total"] = sum(seconds.values())
    return {**seconds, "functions": len(mod)}


def table(family: str, results: dict[int, dict[str, float]]) -> str:
    """The measurements of one family: a line a step, a column a size, and the growth."""
    small, large = min(results), max(results)
    lines = [f"{family:<12}" + "".join(f"{size:>12,}" for size in results) + f"{'growth':>10}"]
    for name in results[small]:
        unit = "" if name == "functions" else " s"
        cells = "".join(f"{row[name]:>{12 - len(unit)}.{2 if unit else 0}f}{unit}" for row in results.values())
        lines.append(f"{name:<12}{cells}{results[large][name] / max(results[small][name], 1e-9):>9.1f}x")
    return "\n".join(lines)


def main() -> None:
    """Measure every family at every size; print the tables, and write them where ``--json`` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="numbers of operators")
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--json", type=pathlib.Path, help="write the measurements to this file")
    options = parser.parse_args()
    for target in TARGETS:
        TARGET_PREDICATES.register(target, functools.partial(is_mine, target))
    results: dict[str, dict[int, dict[str, float]]] = {}
    for family in options.families:
        results[family] = {size: measure(FAMILIES[family](size)) for size in options.sizes}
        print(table(family, results[family]), end="\n\n", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
