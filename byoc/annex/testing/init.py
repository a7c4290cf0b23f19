"""First values of a network's parameters, by their names, and the workload made of a network and them.

A parameter's name ends in what it is: ``weight``, ``bias``, ``gamma``, ``beta``, ``mean`` or ``var``. Source:
``relay.testing.init``; Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
(2010), for Xavier's rule.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform import InferType
from byoc.runtime.core.ndarray import NDArray, numpy_dtype

Fill = Callable[[str, np.ndarray], None]


class Initializer:
    """Fills an array by the name of its parameter; a subclass says what weights are. Source: ``Initializer``."""

    def __init__(self, **kwargs: object):
        self._kwargs = kwargs

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        """Fill *arr*, the parameter called *desc*. Raises UserError for a name that does not say what it is."""
        fill = next((fill for ending, fill in self._fills().items() if desc.endswith(ending)), None)
        if fill is None:
            known = ", ".join(self._fills())
            raise UserError(f"the parameter {desc!r} does not say what it is: its name must end in one of {known}")
        fill(desc, arr)

    def _fills(self) -> dict[str, Fill]:
        return {
            "weight": self._init_weight,
            "bias": self._init_bias,
            "gamma": self._init_gamma,
            "beta": self._init_beta,
            "mean": self._init_mean,
            "var": self._init_var,
        }

    def _init_bias(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 1.0

    def _init_beta(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_mean(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_var(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 1.0

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what weights are: override _init_weight")


# what the sizes around a weight mean for its scale
_FACTORS: dict[str, Callable[[float, float], float]] = {
    "avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "in": lambda fan_in, fan_out: fan_in,
    "out": lambda fan_in, fan_out: fan_out,
}


class Xavier(Initializer):
    """Random weights of a scale that keeps the variance of a layer's output near that of its input. Source: ``Xavier``.

    Raises UserError for an unknown *rnd_type* or *factor_type*.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian"):
            raise UserError(f"rnd_type is uniform or gaussian, got {rnd_type!r}")
        if factor_type not in _FACTORS:
            raise UserError(f"factor_type is one of {', '.join(_FACTORS)}, got {factor_type!r}")
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            raise UserError(f"Xavier's rule needs a weight of at least two axes, {name} has shape {arr.shape}")
        receptive = float(np.prod(arr.shape[2:]))
        factor = _FACTORS[self.factor_type](arr.shape[1] * receptive, arr.shape[0] * receptive)
        if "depthwise" in name:
            factor = receptive  # each channel is connected to itself alone
        scale = np.sqrt(self.magnitude / factor)
        uniform = self.rnd_type == "uniform"
        arr[:] = np.random.uniform(-scale, scale, arr.shape) if uniform else np.random.normal(0, scale, arr.shape)


class Constant(Initializer):
    """The same number for every weight. Source: ``relay.testing.init.Constant``."""

    def __init__(self, value: float):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        arr[:] = self.value


def create_workload(
    net: Function, initializer: Fill | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """The typed module of *net*, and values for all its parameters but ``data``. Source: ``init.create_workload``.

    Raises UserError for a parameter whose name does not say what it is, or whose size is not known.
    """
    mod = InferType()(IRModule.from_expr(net))
    fill = initializer or Xavier()
    np.random.seed(seed)
    params: dict[str, NDArray] = {}
    for param in as_function(mod["main"]).params:
        ty = param.checked_type
        if param.name_hint == "data":
            continue
        if not isinstance(ty, TensorType):
            raise UserError(f"the parameter {param.name_hint!r} is no tensor but {ty}: give its value yourself")
        array = np.zeros(ty.concrete_shape, numpy_dtype(ty.dtype))
        fill(param.name_hint, array)
        params[param.name_hint] = NDArray(array)
    return mod, params
