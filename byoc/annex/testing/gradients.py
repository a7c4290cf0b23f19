"""The check of a function's gradient against differences. Source: ``relay.testing.check_grad``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.annex.gradients.gradient import gradient
from byoc.errors import UserError
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.op.core.arguments import Arguments, takes_fields_of


@dataclass(eq=False, repr=False)
class GradientCheck(Arguments):
    """Arguments of ``check_grad``.

    Attributes:
        func: the function whose gradient is checked.
        inputs: all inputs; by default normal numbers around ``mean`` of deviation ``scale`` (10 eps).
        test_inputs: those of the inputs whose gradient is checked.
        eps: how far an input is moved for a difference.
        target_devices, executor_kind: as in Relay; the functions run on the reference interpreter whatever they say.
    """

    func: Function
    inputs: Sequence[object] | None = None
    test_inputs: Sequence[object] | None = None
    eps: float = 1e-6
    atol: float = 1e-5
    rtol: float = 1e-3
    scale: float | None = None
    mean: float = 0
    mode: str = "higher_order"
    target_devices: Sequence[object] | None = None
    executor_kind: str = "debug"

    def arrays(self, params: Sequence[Var]) -> list[np.ndarray]:
        """The inputs, of parameters of known types."""
        if self.inputs is not None:
            return [_array(given) for given in self.inputs]
        width = 10 * self.eps if self.scale is None else self.scale
        return [_random(param, self.mean, width) for param in params]

    def checked(self, count: int) -> Sequence[int]:
        """Which of *count* inputs are checked. Raises UserError where what is to be checked is no input."""
        if self.test_inputs is None:
            return range(count)
        wanted = [id(item) for item in self.test_inputs]
        given = [id(item) for item in self.inputs or ()]
        if any(item not in given for item in wanted):
            raise UserError("test_inputs are to be some of the inputs themselves")
        return [given.index(item) for item in wanted]


@takes_fields_of(GradientCheck)
def check_grad(given: GradientCheck) -> None:
    """Raises AssertionError where the gradient of a function is not that of central differences.

    Its parameters are Relay's, the fields of :class:`GradientCheck`. Source: ``relay.testing.check_grad``.
    """
    forward = infer_function(given.func)
    backward = infer_function(gradient(forward, mode=given.mode))
    arrays = given.arrays(forward.params)
    checked = given.checked(len(arrays))
    result = evaluate(backward, arrays)
    assert isinstance(result, list) and isinstance(result[1], list)
    grads = result[1]
    for index in checked:
        expected = _differences(forward, arrays, index, given.eps)
        np.testing.assert_allclose(np.asarray(grads[index]), expected, atol=given.atol, rtol=given.rtol)


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
