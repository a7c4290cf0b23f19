"""Small models in the forms that exporters write, built by hand, against ONNX Runtime on every target.

Free sizes, shape arithmetic in the graph, outputs that are inputs or weights, scalars, booleans, short and long floats.
Each model is compiled once for a target and run with several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import byoc

TARGETS = {
    "host": (("c",), [pytest.mark.needs_cc]),
    "json": (("json", "c"), [pytest.mark.needs_cc]),
    "opencl": (("opencl", "c"), [pytest.mark.needs_cc, pytest.mark.needs_opencl]),
}
TYPES = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "f16": TensorProto.FLOAT16,
    "i64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
NUMPY = {"f32": "float32", "f64": "float64", "f16": "float16", "i64": "int64", "bool": "bool"}
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
Spec = tuple[str, str, Sequence[int | str]]
RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Spec],
    outputs: Sequence[tuple[str, str]],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
) -> bytes:
    """A model of *nodes*; the shapes of its outputs are left open."""
    graph = helper.make_graph(
        list(nodes),
        "forms",
        [helper.make_tensor_value_info(name, TYPES[kind], shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, TYPES[kind], None) for name, kind in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return made.SerializeToString()


def node(op: str, inputs: str, outputs: str, **attrs: object) -> NodeProto:
    """A node; names are separated by blanks, ``-`` stands for an input left out."""
    return helper.make_node(op, ["" if i == "-" else i for i in inputs.split()], outputs.split(), **attrs)


def feeds(inputs: Sequence[Spec], sizes: Mapping[str, int], integers: int) -> dict[str, np.ndarray]:
    """Random inputs of the given sizes; integers are below *integers*."""
    rng, made = np.random.default_rng(11), {}
    for name, kind, shape in inputs:
        concrete = [sizes[d] if isinstance(d, str) else d for d in shape]
        if kind in ("i64", "bool"):
            made[name] = rng.integers(0, 2 if kind == "bool" else integers, concrete).astype(NUMPY[kind])
        else:
            made[name] = rng.normal(size=concrete).astype(NUMPY[kind])
    return made


def assert_agrees(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind != "f" or not want.size:
        np.testing.assert_array_equal(got, want)
        return
    span = max(float(want.max() - want.min()), 1e-3)
    step = float(np.spacing(np.abs(want).max()))  # each side rounds its last result, and the one before it
    worst = np.abs(got.astype("float64") - want.astype("float64")).max()
    assert worst <= max(TOLERANCE[want.dtype.name] * span, 2 * step)


def sizes_of(node_input: str, index: int, name: str) -> list[NodeProto]:
    """The size of one dimension as a vector of one, as exporters write it."""
    return [
        node("Shape", node_input, f"{name}_all"),
        node("Gather", f"{name}_all at_{index}", name, axis=0),
    ]


AT = {f"at_{k}": i64(k) for k in range(3)}
X3: list[Spec] = [("x", "f32", ["batch", "seq", 16])]


def attention() -> tuple:
    """Self-attention whose heads are folded into the batch, as ``nn.MultiheadAttention`` is exported."""
    nodes = [
        *sizes_of("x", 0, "b"),
        *sizes_of("x", 1, "n"),
        node("Mul", "b four", "b4"),
        node("Concat", "n b4 dh", "folded", axis=0),
        node("Concat", "b four n dh", "heads", axis=0),
        node("Concat", "b n d", "flat", axis=0),
        node("Transpose", "x", "steps", perm=[1, 0, 2]),
    ]
    for letter in "qkv":
        nodes += [
            node("MatMul", f"steps w{letter}", f"{letter}0"),
            node("Reshape", f"{letter}0 folded", f"{letter}1"),
            node("Transpose", f"{letter}1", f"{letter}2", perm=[1, 0, 2]),
            node("Reshape", f"{letter}2 heads", f"{letter}3"),
        ]
    nodes += [
        node("Transpose", "k3", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "q3 kt", "scores"),
        node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "weights v3", "mixed"),
        node("Transpose", "mixed", "joined", perm=[0, 2, 1, 3]),
        node("Reshape", "joined flat", "y0"),
        node("Add", "y0 x", "y"),
    ]
    weights = {**AT, "four": i64(4), "dh": i64(4), "d": i64(16), **{f"w{c}": f32(16, 16) / 4 for c in "qkv"}}
    return nodes, X3, [("y", "f32")], weights


def causal_embedding() -> tuple:
    """Tokens and positions looked up, and a triangle of minus infinity of a free size."""
    nodes = [
        *sizes_of("t", 1, "n"),
        node("Squeeze", "n", "n0"),
        node("Range", "zero n0 one", "places"),
        node("Gather", "table t", "e"),
        node("Gather", "positions places", "p"),
        node("Add", "e p", "x"),
        node("Transpose", "x", "xt", perm=[0, 2, 1]),
        node("MatMul", "x xt", "scores"),
        node("Concat", "n n", "square", axis=0),
        node("Expand", "lowest square", "full"),
        node("Trilu", "full one", "mask", upper=1),
        node("Add", "scores mask", "masked"),
        node("Softmax", "masked", "w", axis=-1),
        node("MatMul", "w x", "y"),
        node("ArgMax", "y", "best", axis=-1),
    ]
    weights = {
        **AT,
        "zero": np.array(0, "int64"),
        "one": np.array(1, "int64"),
        "table": f32(20, 8),
        "positions": f32(32, 8),
        "lowest": np.full((1, 1), -1e9, "float32"),
    }
    return nodes, [("t", "i64", ["batch", "seq"])], [("y", "f32"), ("best", "i64")], weights


def broadcast_product() -> tuple:
    """A product whose batch dimensions are free on one side and 1 or missing on the other."""
    nodes = [node("MatMul", "a b", "y"), node("MatMul", "a w", "z"), node("MatMul", "v a", "u")]
    inputs: list[Spec] = [("a", "f32", ["n", 3, "m", 5]), ("b", "f32", [1, 3, 5, "k"]), ("v", "f32", ["m"])]
    return nodes, inputs, [("y", "f32"), ("z", "f32"), ("u", "f32")], {"w": f32(5, 4)}


def product_of_free_matrices() -> tuple:
    """Leading sizes that are known and broadcast, before matrices of free sizes."""
    nodes = [node("MatMul", "x y", "z"), node("MatMul", "x w", "v"), node("MatMul", "flat x", "u")]
    inputs: list[Spec] = [
        ("x", "f32", [2, 1, "m", 4]),
        ("y", "f32", [1, 3, 4, "k"]),
        ("flat", "f32", ["k", "m"]),
    ]
    return nodes, inputs, [(n, "f32") for n in "zvu"], {"w": f32(2, 3, 4, 5)}


def batch_of_one_or_two() -> tuple:
    """A free size beside a known one is that or 1, in products as in sums."""
    nodes = [node("MatMul", "x two", "three"), node("MatMul", "x four", "wide"), node("Add", "x same", "sum")]
    weights = {"two": f32(2, 3, 4), "four": f32(3, 2, 3, 4), "same": f32(2, 2, 3)}
    return nodes, [("x", "f32", ["n", 2, 3])], [(n, "f32") for n in ("three", "wide", "sum")], weights


def triangles() -> tuple:
    nodes = [node("Trilu", "x", "upper"), node("Trilu", "x k", "lower", upper=0), node("Trilu", "x j", "free")]
    inputs: list[Spec] = [("x", "f32", ["n", "r", "c"]), ("j", "i64", [])]
    return nodes, inputs, [("upper", "f32"), ("lower", "f32"), ("free", "f32")], {"k": np.array(-1, "int64")}


def resizes(
    mode: str, coordinates: str, nearest: str = "round_prefer_floor", small: float = 0.7
) -> Callable[[], tuple]:
    def build() -> tuple:
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
        nodes = [
            node("Resize", "x - scales", "grown", **attrs),
            node("Resize", "x - small", "shrunk", **attrs),
            *sizes_of("x", 0, "b"),
            node("Concat", "b rest", "sizes", axis=0),
            node("Resize", "x - - sizes", "fixed", **attrs),
        ]
        weights = {
            **AT,
            "scales": np.array([1, 1, 2, 1.5], "float32"),
            "small": np.array([1, 1, small, 1], "float32"),
            "rest": i64(2, 9, 4),
        }
        return nodes, [("x", "f32", ["b", 2, "h", "w"])], [(n, "f32") for n in ("grown", "shrunk", "fixed")], weights

    return build


def group_norm(opset: int) -> Callable[[], tuple]:
    def build() -> tuple:
        count = 2 if opset < 21 else 6
        nodes = [node("GroupNormalization", "x s b", "y", num_groups=2, epsilon=1e-3)]
        return nodes, [("x", "f32", ["n", 6, "h", 5])], [("y", "f32")], {"s": f32(count), "b": f32(count)}, opset

    return build


def wide_pools() -> tuple:
    """Windows wider than the image, of which one hangs over the end (a pool over everything, as EfficientNet's)."""
    ceil = {"kernel_shape": [64, 9], "strides": [64, 4], "ceil_mode": 1}
    nodes = [
        node("AveragePool", "x", "mean", **ceil),
        node("AveragePool", "x", "all", count_include_pad=1, **ceil),
        node("MaxPool", "x", "greatest", **ceil),
    ]
    return nodes, [("x", "f32", ["n", 3, 7, 6])], [(n, "f32") for n in ("mean", "all", "greatest")], {}, 19


def passed_through() -> tuple:
    """Outputs that are an input, the same input again, and a weight."""
    nodes = [node("Identity", "x", "same"), node("Identity", "x", "again"), node("Identity", "w", "weight")]
    return nodes, [("x", "f32", ["n", 4])], [("same", "f32"), ("again", "f32"), ("weight", "f32")], {"w": f32(2, 3)}


def moved_only() -> tuple:
    nodes = [
        node("Flatten", "x", "flat"),
        node("Unsqueeze", "x at_1", "more"),
        node("Reshape", "x all", "line"),
        node("Transpose", "x", "turned", perm=[2, 0, 1]),
    ]
    outputs = [(n, "f32") for n in ("flat", "more", "line", "turned")]
    return nodes, [("x", "f32", ["n", 4, 3])], outputs, {**AT, "all": i64(-1)}


def scalars() -> tuple:
    nodes = [
        node("Mul", "a a", "square"),
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Mul", "x a", "scaled"),
        node("Greater", "sum a", "more"),
    ]
    inputs: list[Spec] = [("a", "f32", []), ("x", "f32", ["n"])]
    return nodes, inputs, [("square", "f32"), ("sum", "f32"), ("scaled", "f32"), ("more", "bool")], {}


def booleans() -> tuple:
    nodes = [
        node("Greater", "x zero", "positive"),
        node("And", "positive m", "both"),
        node("Not", "m", "not"),
        node("Xor", "positive m", "one"),
        node("IsNaN", "x", "nan"),
        node("Where", "m x zero", "kept"),
    ]
    inputs: list[Spec] = [("x", "f32", ["n", 3]), ("m", "bool", ["n", 3])]
    outputs = [(n, "bool") for n in ("positive", "both", "not", "one", "nan")]
    return nodes, inputs, [*outputs, ("kept", "f32")], {"zero": np.zeros((), "float32")}


def integers() -> tuple:
    nodes = [
        node("Add", "a b", "sum"),
        node("Sub", "a big", "less"),
        node("Mul", "a big", "product"),
        node("Add", "b one", "b1"),
        node("Div", "less b1", "quotient"),
        node("Mod", "less b1", "rest"),
        node("Cast", "less", "real", to=TensorProto.FLOAT),
        node("ReduceMax", "product", "most", keepdims=0),
        node("Add", "a odd", "odds"),
        node("Pow", "odds three", "cubes"),
    ]
    outputs = [(n, "i64") for n in ("sum", "less", "product", "quotient", "rest", "most", "cubes")]
    numbers = {"big": 1 << 40, "one": 1, "odd": 1_234_567, "three": 3}
    weights = {name: np.array(value, "int64") for name, value in numbers.items()}
    return nodes, [("a", "i64", ["n", 3]), ("b", "i64", [3])], [*outputs, ("real", "f32")], weights


def top_of_a_known_axis() -> tuple:
    """A k that the graph reads from a shape: known of the second axis, free of the first."""
    nodes = [
        *sizes_of("x", 1, "all"),
        node("TopK", "x all", "sorted order", axis=1),
        *sizes_of("x", 0, "rows"),
        node("TopK", "x rows", "columns places", axis=0),
    ]
    outputs = [("sorted", "f32"), ("order", "i64"), ("columns", "f32"), ("places", "i64")]
    return nodes, [("x", "f32", ["n", 5])], outputs, AT


def sizes_known_afterwards() -> tuple:
    """Reshapes of data of an unnamed size, and into a shape that the graph computes."""
    shapes = {"rows": i64(-1, 1), "column": i64(3, 1)}
    weights = {**AT, **shapes, "many": i64(9), "end": i64(1 << 40), "zero": np.zeros((), "float32")}
    nodes = [
        node("Slice", "x at_0 end at_0 many", "every"),
        node("Mul", "every every", "square"),
        node("Reshape", "square column", "tall"),
        node("Neg", "x", "less"),
        node("Gather", "x at_0", "row", axis=0),
        node("ReduceSum", "row", "sum", keepdims=0),
        node("Mul", "sum zero", "none"),
        node("Cast", "none", "n0", to=7),
        node("Reshape", "n0 at_1", "add"),
        node("Add", "rows add", "shape"),
        node("Reshape", "less shape", "turned"),
        node("Abs", "x", "size"),
        node("Add", "size size", "y"),
    ]
    return nodes, [("x", "f32", ["n", 3])], [(n, "f32") for n in ("tall", "turned", "y")], weights


def floats(kind: str) -> Callable[[], tuple]:
    def build() -> tuple:
        dtype = NUMPY[kind]
        nodes = [
            node("Gemm", "x w b", "h"),
            node("Sigmoid", "h", "s"),
            node("Softmax", "s", "y", axis=-1),
            node("ReduceMean", "x", "mean", axes=[1], keepdims=0),
        ]
        weights = {"w": f32(6, 4).astype(dtype), "b": f32(4).astype(dtype)}
        return nodes, [("x", kind, ["n", 6])], [("y", kind), ("mean", kind)], weights, 17

    return build


SIZES = [{"batch": 2, "seq": 5}, {"batch": 1, "seq": 1}, {"batch": 3, "seq": 9}]
N = [{"n": 2}, {"n": 1}, {"n": 5}]
IMAGES = [{"b": 2, "h": 6, "w": 4}, {"b": 1, "h": 4, "w": 8}]
FORMS: dict[str, tuple[Callable[[], tuple], Sequence[Mapping[str, int]]]] = {
    "attention": (attention, SIZES),
    "causal embedding": (causal_embedding, SIZES),
    "broadcast product": (broadcast_product, [{"n": 2, "m": 4, "k": 3}, {"n": 1, "m": 1, "k": 7}]),
    "product of free matrices": (product_of_free_matrices, [{"m": 4, "k": 3}, {"m": 1, "k": 7}]),
    "batch of one or two": (batch_of_one_or_two, N[:2]),
    "triangles": (triangles, [{"n": 2, "r": 3, "c": 5}, {"n": 4, "r": 6, "c": 2}]),
    "resize linear": (resizes("linear", "half_pixel"), IMAGES),
    # by a scale that gives whole sizes: for others ONNX's reference and ONNX Runtime differ
    "resize linear corners": (resizes("linear", "align_corners", small=0.5), IMAGES),
    "resize cubic": (resizes("cubic", "pytorch_half_pixel"), IMAGES),
    "resize nearest": (resizes("nearest", "asymmetric", "floor"), IMAGES),
    "resize nearest ceil": (resizes("nearest", "half_pixel", "ceil"), IMAGES),
    "group norm 18": (group_norm(18), [{"n": 2, "h": 4}, {"n": 1, "h": 1}]),
    "group norm 21": (group_norm(21), [{"n": 2, "h": 4}, {"n": 3, "h": 2}]),
    "wide pools": (wide_pools, N),
    "passed through": (passed_through, N),
    "moved only": (moved_only, N),
    "scalars": (scalars, N),
    "booleans": (booleans, N),
    "integers": (integers, N),
    "sizes known afterwards": (sizes_known_afterwards, N),
    "top of a known axis": (top_of_a_known_axis, N),
    "float64": (floats("f64"), N),
    "float16": (floats("f16"), N),
}


# that the device compiles for long; it has "resize linear" and "resize nearest", and the host has all
LONG = ("resize cubic", "resize linear corners", "resize nearest ceil")
CASES = [
    pytest.param(
        form,
        targets,
        id=f"{form}-{name}",
        marks=[*marks, pytest.mark.slow] if name == "opencl" and form in LONG else marks,
    )
    for form in FORMS
    for name, (targets, marks) in TARGETS.items()
]


@pytest.mark.parametrize("form, targets", CASES)
def test_a_form_gives_the_outputs_of_onnx_runtime_for_every_size(
    form: str, targets: tuple[str, ...], tmp_path: Path
) -> None:
    build, sizes = FORMS[form]
    parts = build()
    data = model(*parts)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    library = byoc.compile(data, targets=list(targets))
    for given in sizes:
        arrays = feeds(parts[1], given, 20 if form == "causal embedding" else 2)
        for got, want in zip(library.run(arrays), session.run(None, arrays), strict=True):
            assert_agrees(np.asarray(got), want)
    loaded = byoc.load(library.save(tmp_path / "form.byoc"))
    for again, got in zip(loaded.run(arrays), library.run(arrays), strict=True):
        np.testing.assert_array_equal(np.asarray(again), np.asarray(got))


@pytest.mark.needs_cc
@pytest.mark.parametrize("form", ["attention", "causal embedding"])
def test_products_of_free_sizes_are_generated_code(form: str) -> None:
    library = byoc.compile(model(*FORMS[form][0]()), targets=["c"])
    slow = [symbol for symbol in library.report["host_fallbacks"] if "matmul" in symbol or "einsum" in symbol]
    assert slow == []
