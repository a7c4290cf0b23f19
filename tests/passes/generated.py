"""Small modules made by a seed: images through pieces that the passes of the pipeline look for, with sharing.

A piece takes the values so far, f32[1, 8, 6, 6] each, and makes another of that shape. Weights and constants are of the
seed, and small enough that no chain of pieces overflows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.analysis import infer_module
from byoc.runtime.core.device import Device

CHANNELS, SIZE = 8, 6
SHAPE = (1, CHANNELS, SIZE, SIZE)


class Graph:
    """One module in the making: *rng* decides, *values* are what pieces may read, *functions* are beside main."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.inputs = [relay.var(name, shape=SHAPE) for name in ("x", "y")]
        self.values: list[RelayExpr] = [*self.inputs]
        self.functions: dict[relay.GlobalVar, relay.Function] = {}
        self.integers: list[RelayExpr] = []  # outputs that a step may be away, which nothing reads
        self.rounding = str(self.rng.choice(["None", "TOEVEN"]))  # of whatever is quantized

    def any(self) -> RelayExpr:
        """A value made so far, rather a late one."""
        return self.values[-1 - min(int(self.rng.geometric(0.5)) - 1, len(self.values) - 1)]

    def constant(self, *shape: int, low: float = -1.0, high: float = 1.0) -> RelayExpr:
        """Numbers of the seed."""
        return relay.const(self.rng.uniform(low, high, shape).astype("float32"))

    def weight(self, taps: int = 1) -> RelayExpr:
        """f32[C, C, taps, taps] that keeps magnitudes about as they are."""
        return self.constant(CHANNELS, CHANNELS, taps, taps, low=-0.3, high=0.3)

    def module(self, pieces: int) -> relay.IRModule:
        """A typed module of so many pieces and one or two outputs."""
        for _ in range(pieces):
            piece = PIECES[int(self.rng.integers(len(PIECES)))]
            self.values.append(piece(self, self.any()))
        others = [*self.integers, *([self.any()] if self.rng.random() < 0.5 else [])]
        body = relay.Tuple([self.values[-1], *others]) if others else self.values[-1]
        mod = relay.IRModule({relay.GlobalVar("main"): relay.Function(self.inputs, body), **self.functions})
        return infer_module(mod)


def convolution(g: Graph, x: RelayExpr) -> RelayExpr:
    """With a bias, a scale for each channel, or a norm behind it."""
    taps = int(g.rng.choice([1, 3]))
    made = relay.nn.conv2d(x, g.weight(taps), padding=(taps // 2, taps // 2), channels=CHANNELS, kernel_size=taps)
    kind = g.rng.integers(4)
    if kind == 0:
        return relay.nn.relu(relay.nn.bias_add(made, g.constant(CHANNELS)))
    if kind == 1:
        return relay.multiply(made, g.constant(CHANNELS, 1, 1, low=0.5, high=1.5))
    if kind == 2:
        numbers = [g.constant(CHANNELS, low=0.5, high=1.5) for _ in range(4)]
        return relay.nn.batch_norm(made, *numbers)[0]
    return made


def branches(g: Graph, x: RelayExpr) -> RelayExpr:
    """Three products that read one input."""
    if g.rng.random() < 0.4:
        left, right, other = (relay.nn.conv2d(x, g.weight(), channels=CHANNELS, kernel_size=1) for _ in range(3))
        return relay.add(left, relay.maximum(right, other))
    rows = relay.reshape(x, (CHANNELS, SIZE * SIZE))
    weights = [g.constant(SIZE * SIZE, SIZE * SIZE, low=-0.2, high=0.2) for _ in range(3)]
    if g.rng.random() < 0.5:
        made = [relay.nn.dense(rows, w) for w in weights]
    else:
        stacked = relay.expand_dims(rows, 0)
        made = [relay.nn.batch_matmul(stacked, relay.expand_dims(w, 0)) for w in weights]
    return relay.reshape(relay.maximum(made[0], relay.add(made[1], made[2])), SHAPE)


def dilated(g: Graph, x: RelayExpr) -> RelayExpr:
    """A convolution between space_to_batch and batch_to_space."""
    turned = relay.transpose(x, (0, 2, 3, 1))  # both are over images with channels innermost
    spaced = relay.nn.space_to_batch_nd(turned, [2, 2], [[2, 2], [2, 2]])
    weight = g.constant(3, 3, CHANNELS, CHANNELS, low=-0.3, high=0.3)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    made = relay.nn.conv2d(spaced, weight, channels=CHANNELS, kernel_size=3, **layouts)
    return relay.transpose(relay.nn.batch_to_space_nd(made, [2, 2], [[0, 0], [0, 0]]), (0, 3, 1, 2))


def neutral(g: Graph, x: RelayExpr) -> RelayExpr:
    """What SimplifyExpr drops or puts together."""
    return [
        lambda: relay.add(x, relay.const(0.0)),
        lambda: relay.multiply(relay.divide(x, relay.const(1.0)), relay.const(1.0)),
        lambda: relay.subtract(x, relay.zeros_like(x)),
        lambda: relay.add(relay.add(x, g.constant(CHANNELS, 1, 1)), g.constant(CHANNELS, 1, 1)),
        lambda: relay.multiply(relay.multiply(x, relay.const(0.5)), g.constant(CHANNELS, 1, 1)),
        lambda: relay.nn.relu(relay.nn.relu(x)),
        lambda: relay.add(x, x),
        lambda: relay.power(x, relay.const(2.0)),
        lambda: relay.cast(relay.cast(x, "float64"), "float32"),
        lambda: relay.divide(x, relay.sqrt(relay.add(relay.abs(x), relay.const(1.0)))),
    ][int(g.rng.integers(10))]()


def views(g: Graph, x: RelayExpr) -> RelayExpr:
    """Transposes and reshapes around an operator on elements."""
    if g.rng.random() < 0.5:
        turned = relay.transpose(x, (0, 2, 3, 1))
        return relay.transpose(relay.tanh(relay.add(turned, g.constant(CHANNELS))), (0, 3, 1, 2))
    rows = relay.reshape(relay.reshape(x, (CHANNELS, -1)), (-1, 2))
    return relay.reshape(relay.sigmoid(rows), SHAPE)


def functions(g: Graph, x: RelayExpr) -> RelayExpr:
    """exp, tanh and others, which have fast forms."""
    made = [
        relay.tanh,
        relay.erf,
        lambda e: relay.nn.softmax(e, axis=1),
        lambda e: relay.exp(relay.negative(relay.abs(e))),
    ]
    return made[int(g.rng.integers(len(made)))](x)


def computed_constant(g: Graph, x: RelayExpr) -> RelayExpr:
    """A constant that is computed."""
    return relay.multiply(x, relay.sigmoid(relay.add(g.constant(CHANNELS, 1, 1), g.constant(CHANNELS, 1, 1))))


def repeated(g: Graph, x: RelayExpr) -> RelayExpr:
    """The same computation twice, and one that nobody reads."""
    read = relay.Tuple([relay.add(relay.abs(x), relay.abs(x)), relay.exp(x)])
    return relay.nn.dropout(relay.TupleGetItem(read, 0))


def bound(g: Graph, x: RelayExpr) -> RelayExpr:
    """A name in a let, a value and a function that nobody reads, and a function that is called where it stands."""
    name, unread, function, param = relay.var("v"), relay.var("w"), relay.var("f"), relay.var("p", shape=SHAPE)
    twice = relay.Function([param], relay.add(param, relay.abs(param)))
    inner = relay.Let(name, relay.negative(x), relay.Call(twice, [relay.maximum(name, relay.abs(name))]))
    again = relay.var("q", shape=SHAPE)
    return relay.Let(unread, relay.exp(x), relay.Let(function, relay.Function([again], relay.exp(again)), inner))


def called(g: Graph, x: RelayExpr) -> RelayExpr:
    """A function of the module, and one that nobody calls; now and then one that a compiler is to make."""
    param, unread = relay.var("p", shape=SHAPE), relay.var("q", shape=SHAPE)
    number = len(g.functions)
    g.functions[relay.GlobalVar(f"unread_{number}")] = relay.Function([unread], relay.exp(unread))
    body = relay.Function([param], relay.minimum(relay.add(param, relay.const(0.5)), relay.const(2.0)))
    if g.rng.random() < 0.3:
        compiler = {"Compiler": "acme", "global_symbol": f"acme_{number}", "Primitive": 1}
        return relay.Call(body.with_attr(compiler), [x])
    name = relay.GlobalVar(f"f_{number}")
    g.functions[name] = body
    return relay.Call(name, [x])


def placed(g: Graph, x: RelayExpr) -> RelayExpr:
    """An annotation of a device."""
    return relay.abs(relay.annotation.on_device(relay.negative(x), Device("cpu")))


def quantized(g: Graph, x: RelayExpr) -> RelayExpr:
    """A product between dequantize and quantize, or integers alone, as outputs; a constant that was quantized."""
    scale, zero = relay.const(0.05), relay.const(3)
    kept = relay.qnn.op.quantize(x, scale, zero, out_dtype="int8", rounding=g.rounding)
    if g.rng.random() < 0.5:
        weight = relay.const(g.rng.integers(-9, 9, (CHANNELS, CHANNELS, 1, 1)).astype("int8"))
        of_weight = relay.qnn.op.dequantize(weight, relay.const(0.02), relay.const(0))
        of_data = relay.qnn.op.dequantize(kept, scale, zero)
        product = relay.nn.conv2d(of_data, of_weight, channels=CHANNELS, kernel_size=1)
        kept = relay.qnn.op.quantize(product, relay.const(0.1), relay.const(0), out_dtype="int8", rounding=g.rounding)
    g.integers.append(kept)
    stored = relay.const(g.rng.integers(-9, 9, (CHANNELS, 1, 1)).astype("int8"))
    return relay.add(x, relay.qnn.op.dequantize(stored, scale, zero))


def integers(g: Graph, x: RelayExpr) -> RelayExpr:
    """A product of bytes that are widened before it, of an input, whose bits no pass changes."""
    rows = relay.cast(relay.clip(relay.reshape(g.inputs[0], (CHANNELS, SIZE * SIZE)), 0.0, 9.0), "uint8")
    weight = relay.const(g.rng.integers(-9, 9, (SIZE * SIZE, SIZE * SIZE)).astype("int8"))
    found = relay.nn.dense(relay.cast(rows, "int32"), relay.cast(weight, "int32"), out_dtype="int32")
    return relay.add(x, relay.multiply(relay.reshape(relay.cast(found, "float32"), SHAPE), relay.const(0.01)))


def joined(g: Graph, x: RelayExpr) -> RelayExpr:
    """Two values side by side, of which a slice is taken; the sum of a row is read back."""
    both = relay.concatenate([x, g.any()], 1)
    part = relay.strided_slice(both, [0, 4, 0, 0], [1, 4 + CHANNELS, SIZE, SIZE])
    return relay.subtract(part, relay.mean(x, axis=[2, 3], keepdims=True))


def pooled(g: Graph, x: RelayExpr) -> RelayExpr:
    """A window over padding that stands by itself."""
    padded = relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), -100.0)
    return relay.nn.max_pool2d(padded, pool_size=(3, 3), strides=(1, 1))


Piece = Callable[[Graph, RelayExpr], RelayExpr]
PIECES: tuple[Piece, ...] = (
    convolution,
    convolution,
    branches,
    dilated,
    neutral,
    neutral,
    views,
    functions,
    computed_constant,
    repeated,
    bound,
    called,
    placed,
    quantized,
    integers,
    joined,
    pooled,
)


def generated(seed: int) -> relay.IRModule:
    """The module of a seed."""
    graph = Graph(seed)
    return graph.module(int(graph.rng.integers(2, 7)))
