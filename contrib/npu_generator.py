"""From a region to a program of the example NPU: tiles, and what is written for each.

Whatever is computed fits into :data:`MEMORY` bytes with its data, weights, parameters, sums and result, so that an
operator is cut into tiles of rows, columns and channels; of the tiles that fit, that is taken which moves the fewest
bytes. Padding is part of a load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.contract import callee_name
from byoc.contrib.npu_emulator import DEVICE, FRACTION, MEMORY, PARAMETERS, NpuModule
from byoc.errors import CompileError
from byoc.ir.expr import RelayExpr
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call, Constant, Function, Tuple
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.relay.traverse import post_order

CONV, DENSE, ADD = "int8_npu.conv2d", "int8_npu.dense", "int8_npu.add"
LEAST, GREATEST = -128, 127
LEAST_SUM, GREATEST_SUM = -(2**31), 2**31 - 1
Box = tuple[int, int]


def multiplier_and_shift(multiplier: float) -> tuple[int, int]:
    """*multiplier* as ``m * 2**(shift - 31)`` with m of 31 bits; 0 for what is below every step."""
    fraction, exponent = math.frexp(multiplier)
    whole = math.floor(fraction * (1 << FRACTION) + 0.5)
    if whole == 1 << FRACTION:
        whole, exponent = whole // 2, exponent + 1
    return (0, 0) if exponent < -FRACTION else (whole, exponent)


def blocks(size: int) -> list[int]:
    """The sizes of blocks that are tried for *size*: it, its half, and so on to 1."""
    found = {-(-size // 2**k) for k in range(size.bit_length() + 1)}
    return sorted(found, reverse=True)


def cut(size: int, block: int) -> Iterator[Box]:
    """``range(size)`` in pieces of *block*."""
    return ((k, min(k + block, size)) for k in range(0, size, block))


def aligned(count: int) -> int:
    """*count* bytes up to the next word."""
    return -(-count // 4) * 4


@dataclass(frozen=True)
class NpuWindow:
    """A convolution or a pool over ``[h, w, c]`` that gives ``out_c`` channels; *each*: one channel makes one."""

    image: tuple[int, int, int]
    out: tuple[int, int, int]
    kernel: Box
    strides: Box = (1, 1)
    dilation: Box = (1, 1)
    padding: Box = (0, 0)  # above and to the left
    each: bool = False
    sums: bool = True  # whether it has weights, and sums of 32 bits

    def rows(self, axis: int, block: int) -> int:
        """How much of the image *block* results along an axis read."""
        return (block - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def sizes(self, tile: tuple[int, int, int]) -> dict[str, int]:
        """The bytes of data, weights, parameters, sums and result of a tile (rows, columns, channels)."""
        h, w, c = tile
        taken = c if self.each else self.image[2]
        weights = math.prod(self.kernel) * (1 if self.each else taken) * c if self.sums else 0
        count = h * w * c
        return {
            "data": aligned(self.rows(0, h) * self.rows(1, w) * taken),
            "weights": aligned(weights),
            "parameters": PARAMETERS * c if self.sums else 0,
            "sums": 4 * count if self.sums else 0,
            "result": aligned(count),
        }

    def traffic(self, tile: tuple[int, int, int]) -> int:
        """The bytes that move, with 64 for each instruction, where the weights of a block of channels stay."""
        sizes = self.sizes(tile)
        spatial = -(-self.out[0] // tile[0]) * -(-self.out[1] // tile[1])
        return -(-self.out[2] // tile[2]) * (
            spatial * (sizes["data"] + sizes["result"] + 3 * 64) + sizes["weights"] + sizes["parameters"]
        )

    def tile(self) -> tuple[int, int, int] | None:
        """The tile that fits into the memory and moves the fewest bytes; None where none fits."""
        tiles = ((h, w, c) for h in blocks(self.out[0]) for w in blocks(self.out[1]) for c in blocks(self.out[2]))
        fitting = [t for t in tiles if sum(self.sizes(t).values()) <= MEMORY]
        return min(fitting, key=self.traffic, default=None)

    def boxes(self, axis: int, piece: Box) -> tuple[Box, Box]:
        """The part of the image under *piece* of the result along an axis, and the padding before and behind it."""
        begin = piece[0] * self.strides[axis] - self.padding[axis]
        end = begin + self.rows(axis, piece[1] - piece[0])
        size = self.image[axis]
        inside = min(max(begin, 0), size), max(min(end, size), 0)
        if inside[0] >= inside[1]:  # all of it is padding
            return (0, 0), (end - begin, 0)
        return inside, (inside[0] - begin, end - inside[1])


def inner(call: Call) -> dict[str, Call]:
    """The calls inside a composite by the names of their operators; *call* itself where it is none."""
    if not isinstance(call.op, Function):
        return {callee_name(call): call}
    return {callee_name(n): n for n in post_order(call.op.body) if isinstance(n, Call)}


def numbers(value: RelayExpr) -> np.ndarray:
    """What a constant holds."""
    assert isinstance(value, Constant)
    return np.asarray(value.data.numpy())


def number(value: RelayExpr) -> float:
    """The one number of a constant."""
    return float(numbers(value).reshape(-1)[0])


def window_of(call: Call) -> NpuWindow:
    """The window of an operator or composite that the constraints allow."""
    calls = inner(call)
    out = images(call)
    product = next((c for c in calls.values() if operator_of(c).traits.product is not None), call)
    attrs = product.attrs
    if "qnn.dense" in calls:
        units, depth = numbers(product.args[1]).shape
        return NpuWindow((1, 1, depth), (1, 1, units), (1, 1))
    pads = [int(p) for p in attrs.padding]
    top, left = pads[0], pads[1 % len(pads)]  # one number stands for all sides
    if "nn.pad" in calls:
        widths = [[int(k) for k in pair] for pair in calls["nn.pad"].attrs.pad_width]
        top, left = top + widths[1][0], left + widths[2][0]
    image = images(calls["nn.pad"].args[0] if "nn.pad" in calls else product.args[0])
    pooled = product is call
    kernel = attrs.pool_size if pooled else attrs.kernel_size
    return NpuWindow(
        image[1:],
        out[1:],
        _pair(kernel),
        _pair(attrs.strides),
        _pair(attrs.dilation),
        (top, left),
        pooled or int(attrs.groups) > 1,
        not pooled,
    )


def _pair(values: Sequence[int]) -> Box:
    return int(values[0]), int(values[-1])


def images(value: RelayExpr) -> tuple[int, int, int, int]:
    """The shape of *value* as the NPU holds it: matrices have one pixel."""
    shape = [int(d) for d in tensor_type(value).concrete_shape]
    if len(shape) == 2:
        return shape[0], 1, 1, shape[1]
    n, h, w, c = shape
    return n, h, w, c


@dataclass
class NpuProgram:
    """A program that grows: the shapes of its buffers, its constants and its instructions."""

    buffers: list[tuple[int, int, int, int]] = field(default_factory=list)
    rom: bytearray = field(default_factory=bytearray)
    code: list[list[object]] = field(default_factory=list)

    def emit(self, name: str, *operands: int) -> None:
        """Append an instruction."""
        self.code.append([name, *(int(o) for o in operands)])

    def keep(self, values: np.ndarray) -> Box:
        """Put *values* among the constants; their offset and bytes."""
        data = np.asarray(values, order="C").tobytes()
        place = len(self.rom), len(data)
        self.rom += data + bytes(aligned(len(data)) - len(data))
        return place

    def windows(self, window: NpuWindow, source: int, target: int, block: NpuBlock) -> None:
        """*window* from buffer *source* to *target*, tile by tile; *block* writes what a block of channels computes."""
        tile = window.tile()
        if tile is None:
            raise CompileError(f"a result of {window} does not fit into {MEMORY} bytes")
        sizes = window.sizes(tile)
        places = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1].tolist(), strict=True))
        for channels in cut(window.out[2], tile[2]):
            taken = channels if window.each else (0, window.image[2])
            block.constants(self, places, channels)
            for item in range(self.buffers[source][0]):
                for rows in cut(window.out[0], tile[0]):
                    for columns in cut(window.out[1], tile[1]):
                        (h, top), (w, left) = window.boxes(0, rows), window.boxes(1, columns)
                        padding = (top[0], left[0], top[1], left[1])
                        self.emit("load", source, item, *h, *w, *taken, *padding, block.fill, places["data"])
                        shape = [window.rows(0, rows[1] - rows[0]), window.rows(1, columns[1] - columns[0])]
                        out = [rows[1] - rows[0], columns[1] - columns[0], channels[1] - channels[0]]
                        block.compute(self, places, [*shape, taken[1] - taken[0]], out)
                        self.emit("store", places["result"], target, item, *rows, *columns, *channels)


class NpuBlock:
    """What is computed for a block of channels of a :class:`NpuWindow`; padding is filled with *fill*."""

    fill = LEAST

    def __init__(self, window: NpuWindow):
        self.window = window

    def constants(self, program: NpuProgram, places: Mapping[str, int], channels: Box) -> None:
        """Load what a block of channels needs."""

    def compute(self, program: NpuProgram, places: Mapping[str, int], data: Sequence[int], out: Sequence[int]) -> None:
        """The greatest number of each window."""
        w = self.window
        where = (places["data"], places["result"])
        program.emit("max_pool", *where, *data, *out[:2], *w.kernel, *w.strides, *w.dilation)


class Product(NpuBlock):
    """A convolution or dense layer with bias, bounds and requantization."""

    def __init__(self, window: NpuWindow, call: Call):
        super().__init__(window)
        calls = inner(call)
        product = calls.get("qnn.conv2d") or calls["qnn.dense"]
        self.zero = int(number(product.args[2]))
        self.fill = int(number(calls["nn.pad"].args[1])) if "nn.pad" in calls else self.zero
        weights = numbers(product.args[1])
        if "qnn.dense" in calls:
            weights = weights.T.reshape(1, 1, *weights.T.shape)
        elif str(product.attrs.kernel_layout) == "HWOI":
            weights = weights.transpose(0, 1, 3, 2)
        self.weights = weights.reshape(*weights.shape[:2], 1 if window.each else window.image[2], window.out[2])
        bias = numbers(calls["nn.bias_add"].args[1]) if "nn.bias_add" in calls else np.zeros(window.out[2])
        requantize = calls["qnn.requantize"]
        scales = numbers(requantize.args[1]).astype(np.float64).reshape(-1) / np.float64(number(requantize.args[3]))
        pairs = np.array([multiplier_and_shift(float(s)) for s in scales]).T
        self.parameters = np.empty((3, window.out[2]), np.int32)
        self.parameters[0], self.parameters[1:] = bias, pairs
        self.zero_out = int(number(requantize.args[4]))
        self.sums = bounds(calls, "int32", (LEAST_SUM, GREATEST_SUM))
        self.results = bounds(calls, "int8", (LEAST, GREATEST))

    def constants(self, program: NpuProgram, places: Mapping[str, int], channels: Box) -> None:
        part = slice(*channels)
        for name, values in (("weights", self.weights[..., part]), ("parameters", self.parameters[:, part])):
            program.emit("constants", *program.keep(values), places[name])

    def compute(self, program: NpuProgram, places: Mapping[str, int], data: Sequence[int], out: Sequence[int]) -> None:
        w = self.window
        shape = (*data, *out, *w.kernel, *w.strides, *w.dilation, w.each, self.zero)
        program.emit("conv", *places.values(), *shape, *self.sums, self.zero_out, *self.results)


def bounds(calls: Mapping[str, Call], dtype: str, widest: Box) -> Box:
    """The least and the greatest number that a ``clip`` or ``maximum`` over *dtype* in a composite leaves."""
    least, greatest = widest
    for name, of_call in BOUNDS.items():
        call = calls.get(name)
        if call is not None and tensor_types(call.checked_type)[0].dtype == dtype:
            low, high = of_call(call)
            least, greatest = max(least, low), min(greatest, high)
    return least, greatest


# operator -> the least and the greatest number that it leaves
BOUNDS: Mapping[str, Callable[[Call], Box]] = {
    "clip": lambda call: (int(call.attrs.a_min), int(call.attrs.a_max)),
    "maximum": lambda call: (int(number(call.args[1])), GREATEST_SUM),
}


def add(program: NpuProgram, call: Call, sources: Sequence[int], target: int) -> None:
    """A sum of two buffers, row by row in pieces of channels."""
    calls = inner(call)
    sides = calls["qnn.add"].args
    if isinstance(call.op, Function):
        sources = [sources[call.op.params.index(a)] for a in sides[:2]]
    scales, zeros = [number(a) for a in sides[2:8:2]], [int(number(a)) for a in sides[3:8:2]]
    rescaled = [(z, *multiplier_and_shift(s / scales[2])) for s, z in zip(scales[:2], zeros[:2], strict=True)]
    least, greatest = bounds(calls, "int8", (LEAST, GREATEST))
    n, h, w, c = program.buffers[target]
    columns = next((k for k in blocks(w) if 3 * aligned(k * c) <= MEMORY), 1)
    channels = c if 3 * aligned(columns * c) <= MEMORY else MEMORY // 3 // 4 * 4
    rows = next((k for k in blocks(h) if 3 * aligned(k * columns * channels) <= MEMORY), 1)
    places = [k * aligned(rows * columns * channels) for k in range(3)]
    for item in range(n):
        for a in cut(h, rows):
            for b in cut(w, columns):
                for d in cut(c, channels):
                    for source, place in zip(sources, places, strict=False):
                        program.emit("load", source, item, *a, *b, *d, 0, 0, 0, 0, 0, place)
                    count = math.prod(end - begin for begin, end in (a, b, d))
                    program.emit("add", *places, count, *rescaled[0], *rescaled[1], zeros[2], least, greatest)
                    program.emit("store", places[2], target, item, *a, *b, *d)


def window(program: NpuProgram, call: Call, sources: Sequence[int], target: int) -> None:
    """A product or a pool."""
    of = window_of(call)
    block = Product(of, call) if of.sums else NpuBlock(of)
    program.windows(of, sources[0], target, block)


Generator = Callable[[NpuProgram, Call, Sequence[int], int], None]
GENERATORS: Mapping[str, Generator] = {CONV: window, DENSE: window, "nn.max_pool2d": window, "qnn.add": add, ADD: add}


def compiled(function: Function, device: str = DEVICE) -> NpuModule:
    """The program of a region, for *device*. Its buffers are inputs, outputs, and then what is between."""
    outputs = list(function.body.fields) if isinstance(function.body, Tuple) else [function.body]
    calls = [
        n
        for n in post_order(function.body, lambda e: e.args if isinstance(e, Call) else getattr(e, "fields", ()))
        if isinstance(n, Call)
    ]
    values: list[RelayExpr] = list(dict.fromkeys([*function.params, *outputs, *calls]))
    program = NpuProgram([images(v) for v in [*function.params, *outputs]])
    place: dict[RelayExpr, int] = {p: k for k, p in enumerate(function.params)}
    place.update({o: k for k, o in enumerate(outputs, len(place))})
    for value in values:
        if value not in place:
            place[value] = len(program.buffers)
            program.buffers.append(images(value))
    for call in calls:
        sources = [place[a] for a in call.args if not isinstance(a, Constant)]
        GENERATORS[callee_name(call)](program, call, sources, place[call])
    header = {
        "symbol": str(function.attrs["global_symbol"]),
        "inputs": len(function.params),
        "outputs": len(outputs),
        "buffers": [list(b) for b in program.buffers],
        "code": program.code,
        **({} if device == DEVICE else {"device": device}),
    }
    return NpuModule(header, bytes(program.rom))
