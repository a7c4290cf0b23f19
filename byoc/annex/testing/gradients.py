"""The check of a function's gradient against differences. Source: ``relay.testing.check_grad``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.annex.gradients.gradient import gradient
from byoc.errors import UserError
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function, Var
from byoc.relay.interpreter import evaluate


def check_grad(
    func: Function,
    inputs: Sequence[object] | None = None,
    test_inputs: Sequence[object] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Sequence[object] | None = None,
    executor_kind: str = "debug",
) -> None:
    """Raises AssertionError where the gradient of *func* is not that of central differences of *eps*.

    *inputs* are all inputs, by default normal numbers around *mean* of deviation *scale* (10 eps); *test_inputs* are
    those of them whose gradient is checked. The functions run on the reference interpreter, whatever *target_devices*
    and *executor_kind* say. Source: ``relay.testing.check_grad``.
    """
    forward = infer_function(func)
    backward = infer_function(gradient(forward, mode=mode))
    width = 10 * eps if scale is None else scale
    arrays = [_array(i) for i in inputs] if inputs is not None else [_random(p, mean, width) for p in forward.params]
    checked: Sequence[int] = range(len(arrays))
    if test_inputs is not None:
        wanted = [id(item) for item in test_inputs]
        given = [id(item) for item in inputs or ()]
        if any(item not in given for item in wanted):
            raise UserError("test_inputs are to be some of the inputs themselves")
        checked = [given.index(item) for item in wanted]
    result = evaluate(backward, arrays)
    assert isinstance(result, list) and isinstance(result[1], list)
    grads = result[1]
    for index in checked:
        expected = _differences(forward, arrays, index, eps)
        np.testing.assert_allclose(np.asarray(grads[index]), expected, atol=atol, rtol=rtol)


def _array(value: object) -> np.ndarray:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _random(param: Var, mean: float, scale: float) -> np.ndarray:
    ty = param.checked_type
    if not isinstance(ty, TensorType) or not ty.is_static:
        raise UserError(f"check_grad makes inputs for tensors of known shape, %{param.name_hint} is {ty}: give inputs")
    return np.asarray(np.random.normal(mean, scale, ty.concrete_shape)).astype(ty.dtype)


def _differences(func: Function, inputs: Sequence[np.ndarray], index: int, eps: float) -> np.ndarray:
    """Central differences of the sum of the result by each element of input *index*."""
    found = np.zeros(inputs[index].shape)
    for place in np.ndindex(*inputs[index].shape):
        ends = []
        for sign in (1, -1):
            moved = inputs[index].copy()
            moved[place] += sign * eps
            result = evaluate(func, [*inputs[:index], moved, *inputs[index + 1 :]])
            ends.append(np.asarray(result).astype("float64"))
        found[place] = np.sum((ends[0] - ends[1]) / (2 * eps))
    return found
