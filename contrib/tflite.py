"""Models of LiteRT: tensors, operators with their options, and the file (``.tflite``) that interpreters read.

The numbers of slots, operators and options are those of ``tensorflow/lite/schema/schema.fbs``, version 3.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.contrib.flatbuffer import Data, Number, Table, Tables, Vector, encoded

VERSION = 3
IDENTIFIER = b"TFL3"
BYTE_CODES = 127  # operators up to here stand in the older slot too
TYPES = {"float32": 0, "int32": 2}


class Code(enum.IntEnum):
    """``BuiltinOperator``."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    FLOOR = 8
    FULLY_CONNECTED = 9
    LOGISTIC = 14
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    SOFTMAX = 25
    TANH = 28
    PAD = 34
    TRANSPOSE = 39
    MEAN = 40
    SUB = 41
    DIV = 42
    STRIDED_SLICE = 45
    EXP = 47
    PRELU = 54
    MAXIMUM = 55
    MINIMUM = 57
    NEG = 59
    PADV2 = 60
    SIN = 66
    LOG = 73
    SUM = 74
    SQRT = 75
    RSQRT = 76
    LEAKY_RELU = 98
    ABS = 101
    CEIL = 104
    COS = 108


class BuiltinOptions(enum.IntEnum):
    """``BuiltinOptions``: which table of options an operator has."""

    CONV_2D = 1
    DEPTHWISE_CONV_2D = 2
    POOL_2D = 5
    FULLY_CONNECTED = 8
    SOFTMAX = 9
    CONCATENATION = 10
    ADD = 11
    RESIZE_BILINEAR = 15
    RESHAPE = 17
    MUL = 21
    PAD = 22
    TRANSPOSE = 26
    REDUCER = 27
    SUB = 28
    DIV = 29
    STRIDED_SLICE = 32
    EXP = 33
    MAXIMUM_MINIMUM = 39
    NEG = 42
    PADV2 = 43
    LEAKY_RELU = 75
    ABS = 78
    COS = 84


class Padding(enum.IntEnum):
    """Where windows may lie: SAME gives as many results as there are windows' steps in the image, VALID no padding."""

    SAME = 0
    VALID = 1


def int8(value: int) -> Number:
    """A number of one byte, as enumerations are."""
    return Number("b", int(value))


def int32(value: int) -> Number:
    """A number of four bytes."""
    return Number("i", int(value))


@dataclass
class Model:
    """A graph that grows operator by operator; tensors are known by their numbers."""

    tensors: list[Table] = field(default_factory=list)
    buffers: list[Table] = field(default_factory=lambda: [{}])  # the first is that of tensors without content
    operators: list[Table] = field(default_factory=list)
    codes: list[Code] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str = "float32", content: bytes | None = None) -> int:
        """A tensor, constant where it has *content*. Raises KeyError for a dtype that is not in ``TYPES``."""
        buffer = 0
        if content is not None:
            buffer = len(self.buffers)
            self.buffers.append({0: Data(content)})
        self.tensors.append(
            {
                0: Vector("i", shape),
                1: int8(TYPES[dtype]),
                2: Number("I", buffer),
                3: f"t{len(self.tensors)}",
                8: Number("?", True),
            }
        )
        return len(self.tensors) - 1

    def constant(self, array: np.ndarray) -> int:
        """A constant tensor."""
        values = np.asarray(array, order="C")
        return self.tensor(values.shape, str(values.dtype), values.tobytes())

    def add(
        self,
        code: Code,
        inputs: Sequence[int],
        shape: Sequence[int],
        options: tuple[BuiltinOptions, Table] | None = None,
    ) -> int:
        """An operator of one output of *shape*, in float32; the output."""
        if code not in self.codes:
            self.codes.append(code)
        output = self.tensor(shape)
        fields: Table = {} if options is None else {3: Number("B", int(options[0])), 4: options[1]}
        self.operators.append(
            {0: Number("I", self.codes.index(code)), 1: Vector("i", inputs), 2: Vector("i", [output]), **fields}
        )
        return output

    def encoded(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file of the model with these inputs and outputs."""
        graph: Table = {
            0: Tables(self.tensors),
            1: Vector("i", inputs),
            2: Vector("i", outputs),
            3: Tables(self.operators),
            4: "region",
        }
        codes = [{0: int8(min(code, BYTE_CODES)), 2: int32(1), 3: int32(code)} for code in self.codes]
        root: Table = {
            0: Number("I", VERSION),
            1: Tables(codes),
            2: Tables([graph]),
            3: "byoc",
            4: Tables(self.buffers),
        }
        return encoded(root, IDENTIFIER)
