"""Whether the gradient of a function is what small differences of its inputs say. Source: ``check_grad``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Function
from byoc.relay.interpreter import evaluate
from byoc.relay.testing.run_pass import run_infer_type
from byoc.relay.transform import gradient
from byoc.runtime.ndarray import from_any, numpy_dtype

Run = Callable[[Sequence[np.ndarray]], object]


def check_grad(
    func: Function,
    inputs: Sequence[object] | None = None,
    test_inputs: Sequence[np.ndarray] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: object = None,
    executor_kind: str = "debug",
) -> None:
    """Raises AssertionError where the gradient of *func* differs from central differences of step *eps*.

    Without *inputs* they are random, around *mean* and of size *scale* (10 eps). Only the gradients of *test_inputs*,
    which must be among the inputs, are compared where they are given. The reference interpreter computes all, whatever
    *target_devices* and *executor_kind* say. Source: ``relay.testing.check_grad``.
    """
    forward: Function = run_infer_type(func)  # type: ignore[assignment]
    backward: Function = run_infer_type(gradient(forward, mode=mode))  # type: ignore[assignment]
    if inputs is None:
        size = 10 * eps if scale is None else scale
        inputs = [_random(param.checked_type, size, mean) for param in forward.params]
    arrays = [np.asarray(from_any(value)) for value in inputs]
    tested = range(len(arrays)) if test_inputs is None else [_place(value, inputs) for value in test_inputs]
    run_forward, run_backward = _runner(forward), _runner(backward)
    _, gradients = run_backward(arrays)  # type: ignore[misc]
    for index in tested:
        expected = _differences(run_forward, arrays, index, eps)
        found = np.asarray(gradients[index]).astype("float64")
        np.testing.assert_allclose(found, expected, atol=atol, rtol=rtol)


def _runner(func: Function) -> Run:
    mod, names = IRModule.from_expr(func), [param.name_hint for param in func.params]
    if len(set(names)) != len(names):
        raise UserError(f"two inputs of the function share a name ({', '.join(names)}): rename one to check gradients")
    return lambda arrays: evaluate(mod, dict(zip(names, arrays, strict=True)))


def _random(ty: Type, scale: float, mean: float) -> np.ndarray:
    if not isinstance(ty, TensorType):
        raise UserError(f"random inputs are tensors, the function takes {ty}: give the inputs")
    return np.asarray(mean + scale * np.random.randn(*ty.concrete_shape)).astype(numpy_dtype(ty.dtype))


def _place(value: object, inputs: Sequence[object]) -> int:
    for index, given in enumerate(inputs):
        if given is value:
            return index
    raise UserError("a test input of check_grad must be one of its inputs")


def _differences(run: Run, arrays: Sequence[np.ndarray], index: int, eps: float) -> np.ndarray:
    """The sum of the outputs' central differences by each element of input *index*."""
    moved = [array.copy() for array in arrays]
    result = np.zeros(arrays[index].shape)
    for place in np.ndindex(*arrays[index].shape):
        ends = []
        for step in (eps, -eps):
            moved[index][place] = arrays[index][place] + step
            ends.append(np.asarray(run(moved)).astype("float64"))
        moved[index][place] = arrays[index][place]
        result[place] = np.sum((ends[0] - ends[1]) / (2 * eps))
    return result
