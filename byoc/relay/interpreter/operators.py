"""One call of an operator on values, by the numpy kernel that the operator names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.ir.types import TensorType
from byoc.relay.expr import Call
from byoc.relay.narrowing import operator_of
from byoc.runtime.kernels.core.registry import get_kernel

if TYPE_CHECKING:
    from byoc.relay.interpreter.values import Value


def run_operator(call: Call, args: Sequence[Value]) -> Value:
    """The result of an operator call on argument values, by the numpy kernel that the operator names.

    Raises KernelError where there is none.
    """
    kernel = get_kernel(operator_of(call).kernel)
    result = kernel(*args, **(call.attrs.as_dict() if call.attrs is not None else {}))
    if isinstance(result, (tuple, list)):
        return [np.asarray(r) for r in result]
    found, ty = np.asarray(result), call._checked_type
    if isinstance(ty, TensorType) and found.dtype == np.int32 and ty.dtype == "int64":
        return found.astype(np.int64)  # positions have the dtype of the dimension that they count along
    return found
