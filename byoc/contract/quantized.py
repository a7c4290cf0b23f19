"""What integers a backend computes on, as it declares in ``Backend.quantized``.

With it, or with a pattern that holds an operator of ``relay.qnn``, a backend is handed quantized regions: what a model
quantizes itself becomes integer operators before the plan is made, and with ``precision="int8"`` and samples what it
does not quantize is quantized as the backend says.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.errors import PartitionError
from byoc.ir.op import OPS
from byoc.runtime.kernels.qnn.rounding import COMPUTE_DTYPES, ROUNDINGS, TOEVEN

DATA_DTYPES = ("int8", "uint8")


@dataclass(frozen=True)
class Quantized:
    """The integers that a backend takes.

    *operators* are those of a model in floats that it computes on integers (``nn.conv2d``, ``add``, …); none means
    every one that has a form on integers. *data* is the dtype of tensors, *symmetric*: their zero points are 0; weights
    are int8 without a zero point, with a scale for each output where *per_channel*. *rounding* and *compute_dtype* say
    how ``qnn.requantize`` rounds in its regions (``UPWARD`` and ``TONEAREST`` as in Relay, ``TOEVEN`` as in ONNX).
    """

    operators: tuple[str, ...] = ()
    data: str = "int8"
    symmetric: bool = False
    per_channel: bool = True
    rounding: str = TOEVEN
    compute_dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.data not in DATA_DTYPES:
            raise PartitionError(f"Quantized: data is {' or '.join(DATA_DTYPES)}, got {self.data!r}")
        if isinstance(self.operators, str):
            raise PartitionError(
                f"Quantized: operators is a text, expected names, as in operators=({self.operators!r},)"
            )
        unknown = next((name for name in self.operators if name not in OPS), None)
        if unknown is not None:
            raise PartitionError(f"Quantized: no operator is called {unknown!r}; name those of the model in floats")
        if self.rounding not in (*ROUNDINGS, TOEVEN) or self.compute_dtype not in COMPUTE_DTYPES:
            raise PartitionError(
                f"Quantized: rounding is one of {', '.join((*ROUNDINGS, TOEVEN))} and compute_dtype one of "
                f"{', '.join(COMPUTE_DTYPES)}, got {self.rounding!r} and {self.compute_dtype!r}"
            )
        if self.rounding == TOEVEN and self.compute_dtype == "int64":
            raise PartitionError(f"Quantized: rounding {TOEVEN} is computed in floats, got compute_dtype int64")
