"""Whole models as their exporters write them, in small: detectors, a voice model, a decoder with caches, forests.

Each has random weights, control flow or computed sizes as the real one has, and inputs of several sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
Shape = Sequence[int | str]


@dataclass
class Graph:
    """A graph that is written node by node; values are their names."""

    rng: np.random.Generator
    nodes: list = field(default_factory=list)
    weights: list = field(default_factory=list)
    prefix: str = ""

    def __call__(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: object) -> str | list[str]:
        names = [f"{self.prefix}{op}_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{names[0]}_node", domain=domain, **attrs))
        return names[0] if outputs == 1 else names

    def const(self, value: object, dtype: str = "int64") -> str:
        name = f"{self.prefix}c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        return self.const(self.rng.standard_normal(shape) * scale, "float32")

    def inner(self, name: str) -> Graph:
        """A graph whose names begin with *name*, for a branch or a body."""
        return Graph(self.rng, prefix=f"{self.prefix}{name}_")

    def size(self, value: str, axis: int) -> str:
        """One size of a value, as a vector of one number."""
        return self("Gather", self("Shape", value), self.const([axis]), axis=0)  # type: ignore[arg-type, return-value]

    def named(self, value: str, name: str) -> str:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        return name

    def graph(self, outputs: Sequence[tuple[str, int, Shape | None]], inputs: Sequence = ()) -> GraphProto:
        return helper.make_graph(
            self.nodes,
            f"{self.prefix}graph",
            [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(*o) for o in outputs],
            self.weights,
        )

    def model(self, outputs: Sequence[tuple[str, int, Shape | None]], inputs: Sequence, opset: int) -> ModelProto:
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(self.graph(outputs, inputs), opset_imports=opsets, ir_version=8)


Feeds = Mapping[str, np.ndarray]


def images(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[Feeds]:
    return [{"image": rng.standard_normal(shape).astype("float32")} for shape in shapes]


def _backbone(g: Graph, value: str, channels: Sequence[int]) -> list[str]:
    """Convolutions by strides of 2, as many as there are *channels* after the first."""
    found = []
    for before, after in itertools.pairwise(channels):
        value = g(
            "Conv",
            value,
            g.weight(after, before, 3, 3, scale=0.3),
            g.weight(after, scale=0.1),
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            strides=[2, 2],
        )
        value = g("Mul", value, g("Sigmoid", value))
        found.append(value)
    return found


def _slices(g: Graph, value: str, axis: int, *bounds: int) -> list[str]:
    ends = itertools.pairwise(bounds)
    return [g("Slice", value, g.const([a]), g.const([b]), g.const([axis])) for a, b in ends]


def yolo(rng: np.random.Generator, opset: int, shape: Shape, classes: int = 3) -> ModelProto:
    """Two levels with grids made of their sizes, boxes by centres, suppression by classes, rows (box, score, class)."""
    g = Graph(rng)
    levels = _backbone(g, "image", (3, 6, 8, 12))[1:]
    flat = []
    for value, channels, stride in zip(levels, (8, 12), (4, 8), strict=True):
        head = g("Conv", value, g.weight(4 + classes, channels, 1, 1, scale=0.2), g.weight(4 + classes))
        height, width = g.size(head, 2), g.size(head, 3)
        rows, columns = (
            g(
                "Cast",
                g(
                    "Range",
                    g.const(0),
                    g("Squeeze", n, g.const([0])) if opset >= 13 else g("Squeeze", n, axes=[0]),
                    g.const(1),
                ),
                to=FLOAT,
            )
            for n in (height, width)
        )
        rows = g("Reshape", rows, g.const([1, 1, -1, 1]))
        columns = g("Reshape", columns, g.const([1, 1, 1, -1]))
        zeros = g("Mul", g("Add", rows, columns), g.const(0.0, "float32"))
        centres = g("Concat", g("Add", columns, zeros), g("Add", rows, zeros), axis=1)
        xy, wh, scores = _slices(g, head, 1, 0, 2, 4, 4 + classes)
        xy = g("Mul", g("Add", g("Sigmoid", xy), centres), g.const(stride, "float32"))
        wh = g("Mul", g("Exp", wh), g.const(2.0 * stride, "float32"))
        whole = g("Concat", xy, wh, g("Sigmoid", scores), axis=1)
        batch = g.size(whole, 0)
        flat.append(g("Reshape", whole, g("Concat", batch, g.const([4 + classes]), g.const([-1]), axis=0)))
    every = g("Concat", *flat, axis=2)
    xy, wh, scores = _slices(g, every, 1, 0, 2, 4, 4 + classes)
    half = g("Mul", wh, g.const(0.5, "float32"))
    corners = g("Transpose", g("Concat", g("Sub", xy, half), g("Add", xy, half), axis=1), perm=[0, 2, 1])
    return _suppressed(g, corners, scores, shape, opset)


def _suppressed(g: Graph, boxes: str, scores: str, shape: Shape, opset: int) -> ModelProto:
    """Boxes f[B, n, 4] and scores f[B, C, n]: a row of image, box, score and class for each that is chosen."""
    chosen = g("NonMaxSuppression", boxes, scores, g.const(5), g.const(0.5, "float32"), g.const(0.4, "float32"))
    image, label, place = (g("Gather", chosen, g.const([k]), axis=1) for k in range(3))
    box = g("GatherND", boxes, g("Concat", image, place, axis=1))
    score = g("GatherND", scores, chosen)
    score = g("Unsqueeze", score, g.const([1])) if opset >= 13 else g("Unsqueeze", score, axes=[1])
    rows = g("Concat", g("Cast", image, to=FLOAT), box, score, g("Cast", label, to=FLOAT), axis=1)
    g.named(rows, "rows")
    return g.model([("rows", FLOAT, ["found", 7])], [("image", FLOAT, shape)], opset)


def ssd(rng: np.random.Generator, opset: int, size: int) -> ModelProto:
    """Boxes by their distances from prior boxes, softmax over classes, the best 30 before suppression."""
    g = Graph(rng)
    levels = _backbone(g, "image", (3, 6, 8, 12))[1:]
    places, scores, count = [], [], 0
    for value, channels in zip(levels, (8, 12), strict=True):
        for made, width, scale in ((places, 2 * 4, 0.2), (scores, 2 * 4, 0.2)):
            head = g("Conv", value, g.weight(width, channels, 3, 3, scale=scale), pads=[1, 1, 1, 1])
            made.append(g("Reshape", g("Transpose", head, perm=[0, 2, 3, 1]), g.const([0, -1, 4])))
        count += 2 * (-(-size // (4 if channels == 8 else 8))) ** 2
    priors = np.abs(rng.random((count, 4)) * [1, 1, 0.3, 0.3] + [0, 0, 0.05, 0.05])
    distances = g("Mul", g("Concat", *places, axis=1), g.const([0.1, 0.1, 0.2, 0.2], "float32"))
    xy, wh = _slices(g, distances, 2, 0, 2, 4)
    centres, sizes = g.const(priors[:, :2], "float32"), g.const(priors[:, 2:], "float32")
    xy = g("Add", g("Mul", xy, sizes), centres)
    half = g("Div", g("Mul", g("Exp", wh), sizes), g.const(2.0, "float32"))
    boxes = g(
        "Clip",
        g("Concat", g("Sub", xy, half), g("Add", xy, half), axis=2),
        g.const(0.0, "float32"),
        g.const(1.0, "float32"),
    )
    likely = g("Softmax", g("Concat", *scores, axis=1), axis=2)
    known = _slices(g, likely, 2, 1, 4)[0]
    _, best = g("TopK", g("ReduceMax", known, axes=[2], keepdims=0), g.const([30]), outputs=2, axis=1)
    repeated = g("Unsqueeze", best, g.const([2])) if opset >= 13 else g("Unsqueeze", best, axes=[2])
    boxes = g("GatherElements", boxes, g("Expand", repeated, g.const([1, 1, 4])), axis=1)
    known = g("GatherElements", known, g("Expand", repeated, g.const([1, 1, 3])), axis=1)
    return _suppressed(g, boxes, g("Transpose", known, perm=[0, 2, 1]), ["batch", 3, size, size], opset)


def faster(rng: np.random.Generator, opset: int) -> ModelProto:
    """As torchvision ends: scores above a threshold, small boxes out, suppression of boxes moved apart by class, the
    first 10 of them, or nothing at all by another branch where no box is left."""
    g = Graph(rng)
    pooled = g("GlobalAveragePool", _backbone(g, "image", (3, 6, 8))[-1])
    pooled = g("Flatten", pooled)
    numbers = g("Reshape", g("MatMul", pooled, g.weight(8, 20 * 7, scale=1.5)), g.const([20, 7]))
    raw, logits = _slices(g, numbers, 1, 0, 4, 7)
    xy, wh = _slices(g, g("Sigmoid", raw), 1, 0, 2, 4)
    boxes = g("Mul", g("Concat", xy, g("Add", xy, wh), axis=1), g.const(100.0, "float32"))
    likely = g("Softmax", g("Mul", logits, g.const(6.0, "float32")), axis=1)
    flat = g("Reshape", _slices(g, likely, 1, 1, 3)[0], g.const([-1]))
    labels = g.const(np.tile([1, 2], 20))
    repeated = g("Reshape", g("Tile", boxes, g.const([1, 2])), g.const([-1, 4]))

    def kept(which: str, *values: str) -> list[str]:
        places = g("Squeeze", g("Transpose", g("NonZero", which), perm=[1, 0]), g.const([1]))
        return [g("Gather", value, places, axis=0) for value in values]

    flat, labels, repeated = kept(g("Greater", flat, "threshold"), flat, labels, repeated)
    left, right = _slices(g, repeated, 1, 0, 2, 4)
    wide = g("ReduceMin", g("Sub", right, left), axes=[1], keepdims=0)
    flat, labels, repeated = kept(g("GreaterOrEqual", wide, g.const(1.0, "float32")), flat, labels, repeated)
    empty = g("Equal", g("Size", repeated), g.const(0))
    nothing, something = g.inner("nothing"), g.inner("something")
    nothing.named(nothing("Constant", value=numpy_helper.from_array(np.zeros(0, "int64"))), "none")
    moved = something(
        "Add",
        repeated,
        something(
            "Unsqueeze",
            something(
                "Mul",
                something("Cast", labels, to=FLOAT),
                something("Add", something("ReduceMax", repeated, keepdims=0), something.const(1.0, "float32")),
            ),
            something.const([1]),
        ),
    )
    chosen = something(
        "NonMaxSuppression",
        something("Unsqueeze", moved, something.const([0])),
        something("Unsqueeze", flat, something.const([0, 1])),
        something.const([200]),
        something.const([0.3], "float32"),
    )
    places = something("Squeeze", something("Gather", chosen, something.const([2]), axis=1), something.const([1]))
    something.named(places, "some")
    chosen = g(
        "If",
        empty,
        then_branch=nothing.graph([("none", INT64, [0])]),
        else_branch=something.graph([("some", INT64, ["n"])]),
    )
    first = g("Slice", chosen, g.const([0]), g.const([10]), g.const([0]))
    for name, value in (("boxes", repeated), ("labels", labels), ("scores", flat)):
        g.named(g("Gather", value, first, axis=0), name)
    outputs = [("boxes", FLOAT, None), ("labels", INT64, None), ("scores", FLOAT, None)]
    return g.model(outputs, [("image", FLOAT, [1, 3, "height", "width"]), ("threshold", FLOAT, [])], opset)


def voice(rng: np.random.Generator, opset: int) -> ModelProto:
    """As silero-vad: If on the sampling rate; a spectrum by convolution, an LSTM whose states are given."""
    g = Graph(rng)

    def branch(name: str, window: int, hop: int) -> GraphProto:
        b = g.inner(name)
        bins = window // 2 + 1
        padded = b("Pad", b("Unsqueeze", "sound", b.const([1])), b.const([0, 0, 0, 0, 0, hop]), mode="reflect")
        spectrum = b("Conv", padded, b.weight(2 * bins, 1, window, scale=0.1), strides=[hop])
        real = b("Slice", spectrum, b.const([0]), b.const([bins]), b.const([1]))
        imaginary = b("Slice", spectrum, b.const([bins]), b.const([2 * bins]), b.const([1]))
        power = b("Sqrt", b("Add", b("Mul", real, real), b("Mul", imaginary, imaginary)))
        coded = b("Relu", b("Conv", power, b.weight(8, bins, 3, scale=0.3), b.weight(8), pads=[1, 1]))
        steps = b("Transpose", coded, perm=[2, 0, 1])
        before, cell = (b("Slice", "state", b.const([k]), b.const([k + 1]), b.const([0])) for k in (0, 1))
        y, h, c = b(
            "LSTM",
            steps,
            b.weight(1, 24, 8, scale=0.4),
            b.weight(1, 24, 6, scale=0.4),
            b.weight(1, 48),
            "",
            before,
            cell,
            outputs=3,
            hidden_size=6,
        )
        hidden = b("Relu", b("Transpose", b("Squeeze", y, b.const([1])), perm=[1, 2, 0]))
        speech = b("Sigmoid", b("Conv", hidden, b.weight(1, 6, 1), b.weight(1)))
        b.named(b("ReduceMean", b("Squeeze", speech, b.const([1])), axes=[1], keepdims=1), "out")
        b.named(b("Concat", h, c, axis=0), "next")
        return b.graph([(f"{n}", FLOAT, None) for n in ("out", "next")])

    def renamed(graph: GraphProto, ends: str) -> GraphProto:
        for node in graph.node:
            for k, output in enumerate(node.output):
                if output in ("out", "next"):
                    node.output[k] = output + ends
        for value in graph.output:
            value.name += ends
        return graph

    fast = g("Equal", "rate", g.const(16000))
    found = g(
        "If",
        fast,
        outputs=2,
        then_branch=renamed(branch("fast", 16, 8), "_fast"),
        else_branch=renamed(branch("slow", 8, 4), "_slow"),
    )
    g.named(found[0], "speech")
    g.named(found[1], "states")
    inputs = [("sound", FLOAT, ["batch", "samples"]), ("state", FLOAT, [2, "batch", 6]), ("rate", INT64, [])]
    return g.model([("speech", FLOAT, None), ("states", FLOAT, None)], inputs, opset)


HEADS, SHARED, SIZE, WIDTH, LAYERS, WORDS = 4, 2, 16, 32, 2, 40


def decoder(rng: np.random.Generator, opset: int) -> ModelProto:
    """As ONNX Runtime's model builder writes a decoder: GroupQueryAttention over caches whose lengths are free."""
    g = Graph(rng)
    angles = np.arange(64)[:, None] / 100.0 ** (np.arange(SIZE // 2) / (SIZE // 2))
    cosines, sines = g.const(np.cos(angles), "float32"), g.const(np.sin(angles), "float32")
    total = g("ReduceSum", "attention_mask", g.const([1]), keepdims=0)
    lengths = g("Cast", g("Sub", total, g.const([1])), to=INT32)
    longest = g("Cast", g("Gather", g("Shape", "attention_mask"), g.const(1), axis=0), to=INT32)
    skip = g("Gather", g.weight(WORDS, WIDTH), "input_ids")
    rows = g("SimplifiedLayerNormalization", skip, g.weight(WIDTH), axis=-1, epsilon=1e-5, stash_type=1)
    caches, outputs = [], []
    for layer in range(LAYERS):
        widths = (HEADS * SIZE, SHARED * SIZE, SHARED * SIZE)
        parts = [g("MatMul", rows, g.weight(WIDTH, width, scale=0.2)) for width in widths]
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        mixed, key, value = g(
            "GroupQueryAttention",
            *parts,
            *past,
            lengths,
            longest,
            cosines,
            sines,
            outputs=3,
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=1,
        )
        for part, made in (("key", key), ("value", value)):
            outputs.append((g.named(made, f"present.{layer}.{part}"), FLOAT, None))
            caches.append((f"past_key_values.{layer}.{part}", FLOAT, ["batch", SHARED, "past", SIZE]))
        mixed = g("MatMul", mixed, g.weight(HEADS * SIZE, WIDTH, scale=0.2))
        rows, _, _, skip = g(
            "SkipSimplifiedLayerNormalization",
            skip,
            mixed,
            g.weight(WIDTH),
            outputs=4,
            domain="com.microsoft",
            epsilon=1e-5,
        )
        gate = g("MatMul", rows, g.weight(WIDTH, 48, scale=0.2))
        gated = g("Mul", g("Mul", gate, g("Sigmoid", gate)), g("MatMul", rows, g.weight(WIDTH, 48, scale=0.2)))
        rows, _, _, skip = g(
            "SkipSimplifiedLayerNormalization",
            skip,
            g("MatMul", gated, g.weight(48, WIDTH, scale=0.2)),
            g.weight(WIDTH),
            outputs=4,
            domain="com.microsoft",
            epsilon=1e-5,
        )
    g.named(g("MatMul", rows, g.weight(WIDTH, WORDS, scale=0.4)), "logits")
    for node in g.nodes:  # the statistics of a norm are nobody's
        if node.op_type == "SkipSimplifiedLayerNormalization":
            node.output[1] = node.output[2] = ""
    inputs = [("input_ids", INT64, ["batch", "new"]), ("attention_mask", INT64, ["batch", "total"]), *caches]
    return g.model([("logits", FLOAT, None), *outputs], inputs, opset)


def attention_decoder(rng: np.random.Generator, opset: int) -> ModelProto:
    """As PyTorch's exporter writes a decoder: positions from the past's length, a mask of a triangle, caches joined."""
    g = Graph(rng)
    new = g("Gather", g("Shape", "input_ids"), g.const(1), axis=0)
    past = g("Gather", g("Shape", "past_key_values.0.key"), g.const(2), axis=0)
    total = g("Add", past, new)
    own, every = g("Range", past, total, g.const(1)), g("Range", g.const(0), total, g.const(1))
    seen = g("LessOrEqual", every, g("Unsqueeze", own, g.const([1])))
    mask = g("Where", seen, g.const(0.0, "float32"), g.const(-3.4e38, "float32"))
    rows = g("Add", g("Gather", g.weight(WORDS, WIDTH), "input_ids"), g("Gather", g.weight(64, WIDTH), own))
    shape, caches, outputs = g.const([0, 0, HEADS, WIDTH // HEADS]), [], []
    for layer in range(LAYERS):
        normal = g("LayerNormalization", rows, g.weight(WIDTH), g.weight(WIDTH))
        query, key, value = (
            g(
                "Transpose",
                g("Reshape", g("MatMul", normal, g.weight(WIDTH, WIDTH, scale=0.2)), shape),
                perm=[0, 2, 1, 3],
            )
            for _ in range(3)
        )
        held = []
        for part, made in (("key", key), ("value", value)):
            name = f"past_key_values.{layer}.{part}"
            held.append(g("Concat", name, made, axis=2))
            caches.append((name, FLOAT, ["batch", HEADS, "past", WIDTH // HEADS]))
            outputs.append((g.named(held[-1], f"present.{layer}.{part}"), FLOAT, None))
        scores = g("Add", g("MatMul", query, g("Transpose", held[0], perm=[0, 1, 3, 2])), mask)
        mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), held[1]), perm=[0, 2, 1, 3])
        joined = g("Reshape", mixed, g.const([0, 0, WIDTH]))
        rows = g("Add", rows, g("MatMul", joined, g.weight(WIDTH, WIDTH, scale=0.2)))
    g.named(g("MatMul", rows, g.weight(WIDTH, WORDS, scale=0.4)), "logits")
    return g.model([("logits", FLOAT, None), *outputs], [("input_ids", INT64, ["batch", "new"]), *caches], opset)
