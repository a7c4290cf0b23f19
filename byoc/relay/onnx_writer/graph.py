"""An ONNX graph under construction: values have names, each node gives new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from byoc.ir.types import Any, TensorType
from byoc.runtime.core.ndarray import numpy_dtype

OPSET = 18


def element_type(dtype: str) -> int:
    """ONNX's number of a dtype; bfloat16 and what is smaller are dtypes of numpy's through ml_dtypes."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(dtype))))


class GraphWriter:
    """Nodes and constants in order. Every name is new, and none of *taken*."""

    def __init__(self, taken: Iterable[str] = (), of_model: bool = False) -> None:
        self.of_model = of_model
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.unchecked: dict[str, str] = {}  # indices before they were looked at, by those behind
        self._sizes: dict[str, tuple[str, int]] = {}  # a value that has a size of a name, and along which axis
        self._names = 0
        self._taken = frozenset(taken)

    def name(self, stem: str) -> str:
        """A name that nothing has."""
        self._names += 1
        while f"{stem}_{self._names}" in self._taken:
            self._names += 1
        return f"{stem}_{self._names}"

    def constant(self, value: np.ndarray | Sequence[int]) -> str:
        """A constant; a sequence of ints is a vector of int64."""
        array = value if isinstance(value, np.ndarray) else np.asarray(value, "int64")
        made = numpy_helper.from_array(np.asarray(array, order="C"), self.name("const"))
        self.constants.append(made)
        return str(made.name)

    def note(self, value: str, ty: TensorType) -> None:
        """Remember that *value* has the free sizes of *ty*."""
        for axis, dim in enumerate(ty.shape):
            if isinstance(dim, Any) and dim.name:
                self._sizes.setdefault(dim.name, (value, axis))

    def size(self, dim: Any) -> str | None:
        """A vector of int64 that holds a free size alone; None where no value before has it."""
        if dim.name not in self._sizes:
            return None
        value, axis = self._sizes[dim.name]
        return self.value("Shape", value, start=axis, end=axis + 1)

    def scalar(self, value: float, dtype: str) -> str:
        """A constant of no dimension."""
        return self.constant(np.asarray(value, numpy_dtype(dtype)))

    def node(self, operator: str, inputs: Sequence[str], outputs: int = 1, **attributes: object) -> list[str]:
        """The values that a new node gives; attributes that are None are left out."""
        names = [self.name(operator.lower()) for _ in range(outputs)]
        node = helper.make_node(operator, list(inputs), names)
        given = {key: value for key, value in attributes.items() if value is not None}
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(given.items()))
        self.nodes.append(node)
        return names

    def value(self, operator: str, *inputs: str, **attributes: object) -> str:
        """The one value of a new node."""
        return self.node(operator, inputs, 1, **attributes)[0]
