"""The function of a region, which executors call as any other; its guard chooses between backend and host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from byoc.runtime.core.ndarray import PackedFunction, from_any
from byoc.runtime.core.signature import Signature
from byoc.runtime.region.call import RegionCall, called
from byoc.runtime.region.checks import CallArrays, CheckedCall, check_results, check_returned
from byoc.runtime.region.guard import RegionGuard
from byoc.runtime.region.locked import locked


class RegionFunction:
    """The function of a region, as executors call it: inputs, then outputs, which it fills."""

    def __init__(self, guard: RegionGuard):
        self.guard = guard
        if guard.has_stand_in or guard.has_known_outputs:
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
        given = [from_any(a) for a in arrays]
        count = self.guard.inputs_of(len(given)) or 0
        RegionCall(self.guard, [*_laid_out(given[:count]), *given[count:]], called)()

    def bind(self, arrays: Sequence[np.ndarray]) -> RegionCall:
        """The call on these arrays. Raises InputError for inputs that do not fit, where the signature is known."""
        return RegionCall(self.guard, arrays)

    def _returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for *inputs*, in new arrays. Raises InputError for inputs that do not fit."""
        guard, shapes = self.guard, tuple(a.shape for a in inputs)
        inputs = _laid_out(inputs)
        if guard.signature is not None:
            guard.signature.bind_sizes(inputs)
        known = guard.known_outputs()
        if known is not None:
            return known
        if guard.may_try(shapes):
            try:
                return self._from_backend(inputs)
            except Exception as error:  # whatever a vendor's code raises
                guard.failed(shapes, error)
        return _results(guard.host_function(), guard.signature, inputs)

    def _from_backend(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the backend's function gives for *inputs*, looked at."""
        guard, function = self.guard, self.guard.function()
        outputs = self._empty_outputs(function, inputs)
        if outputs is not None:
            RegionCall(guard, [*inputs, *outputs]).run_backend()
            return outputs
        signature, given, watch = guard.region.signature, inputs, None
        if guard.checks is not None:
            arrays = CallArrays.checked(guard.checks, inputs, len(inputs), signature, guard.constants)
            given = list(arrays.arrays)
        work = locked(functools.partial(_results, function, guard.signature, given), guard.lock)
        if guard.checks is not None:
            watch = CheckedCall(work, guard.checks, arrays)
            watch.begin()
        results = guard.result_of(work, guard.call_seconds(function))
        if signature is not None:
            check_results(results, signature, inputs)
        if watch is not None:
            watch.end(results)
        return results

    def _empty_outputs(self, function: PackedFunction, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """New arrays for the outputs, where there are checks: arrays of ours are guarded, what it returns is not.

        None for a *function* that only returns its outputs, and where its inputs do not say how large they are. Raises
        InputError for inputs that do not fit.
        """
        signature = self.guard.region.signature
        if self.guard.checks is None or signature is None or not hasattr(function, "bind"):
            return None
        if getattr(function, "undetermined_sizes", ()):
            return None
        sizes = signature.bind_sizes(inputs)
        named = [d for spec in signature.outputs for d in spec.shape if not isinstance(d, int)]
        if any(d is None or not sizes.determines(d) for d in named):
            return None
        return signature.empty_outputs(inputs)


def _laid_out(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """*arrays* as the contract promises them: in C order, aligned; themselves where they are so."""
    return [np.require(array, requirements=["C", "A"]) for array in arrays]


def _results(function: PackedFunction, signature: Signature | None, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What *function* returns; one that fills its outputs gets them, of the sizes that the inputs determine."""
    returning: Callable[..., list[np.ndarray]] | None = getattr(function, "call_returning", None)
    if returning is not None:
        return returning(inputs)
    assert signature is not None  # a function without one returns its outputs
    outputs = signature.empty_outputs(inputs)
    check_returned(called(function, [*inputs, *outputs])())
    return outputs


def guards_of(functions: Iterable[object]) -> tuple[RegionGuard, ...]:
    """The guards of those of *functions* that are regions, each once."""
    return tuple(dict.fromkeys(f.guard for f in functions if isinstance(f, RegionFunction)))
