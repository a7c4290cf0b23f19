"""The function of a region, which executors call as any other; its guard chooses between backend and host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from byoc.runtime.core.ndarray import from_any
from byoc.runtime.core.packed_function import PackedFunction
from byoc.runtime.core.signature import Signature
from byoc.runtime.region.call import RegionCall, called
from byoc.runtime.region.guard import RegionGuard
from byoc.runtime.region.in_time import in_time


class RegionFunction:
    """The function of a region, as executors call it: inputs, then outputs, which it fills."""

    def __init__(self, guard: RegionGuard):
        self.guard = guard
        if guard.has_stand_in:
            self.call_returning = self._returning
            return
        try:
            function = guard.function()
        except Exception as error:  # whatever a vendor's code raises
            guard.failed((), error)
            raise
        if hasattr(function, "call_returning"):
            self.call_returning = self._returning

    def __call__(self, *arrays: object) -> None:
        RegionCall(self.guard, [from_any(a) for a in arrays], called)()

    def bind(self, arrays: Sequence[np.ndarray]) -> RegionCall:
        """The call on these arrays. Raises InputError for inputs that do not fit, where the signature is known."""
        return RegionCall(self.guard, arrays)

    def _returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for *inputs*, in new arrays. Raises InputError for inputs that do not fit."""
        guard, shapes = self.guard, tuple(a.shape for a in inputs)
        if guard.signature is not None:
            guard.signature.bind_sizes(inputs)
        if guard.may_try(shapes):
            try:
                return in_time(functools.partial(_results, guard.function(), guard.signature, inputs), guard.place)
            except Exception as error:  # whatever a vendor's code raises
                guard.failed(shapes, error)
        return _results(guard.host_function(), guard.signature, inputs)


def _results(function: PackedFunction, signature: Signature | None, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What *function* returns; one that fills its outputs gets them, of the sizes that the inputs tell."""
    returning: Callable[..., list[np.ndarray]] | None = getattr(function, "call_returning", None)
    if returning is not None or signature is None:
        return returning(inputs)  # type: ignore[misc]  # a function without a signature returns its outputs
    outputs = signature.empty_outputs(inputs)
    called(function, [*inputs, *outputs])()
    return outputs


def guards_of(functions: Iterable[object]) -> tuple[RegionGuard, ...]:
    """The guards of those of *functions* that are regions, each once."""
    return tuple(dict.fromkeys(f.guard for f in functions if isinstance(f, RegionFunction)))
