"""A region of C kernels, one kernel after the other with guards around each: what ``BYOC_CHECK`` asks for.

A library of declared kernels has, beside the function that calls them in turn, ``<symbol>_step``, which calls one, and
``<symbol>_steps``, the values and steps as JSON text. Here each value has memory of its own between fences, so that a
kernel that writes beside an output, leaves some of it, or writes to an input is seen where it does. A region that is
one piece of code has fences around its workspace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import cffi
import numpy as np

from byoc.runtime.core.errors import ContractError
from byoc.runtime.core.ndarray import from_any, numpy_dtype
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.region.checks import CallArrays, CallChecks, CheckedCall
from byoc.runtime.region.fences import NEVER_WRITTEN, Fenced

DECLARATIONS = """
void {symbol}_step(int64_t step, void **values, const int64_t *sizes);
extern const char {symbol}_steps[];
"""
_FFI = cffi.FFI()


@dataclass(frozen=True)
class CalledKernel:
    """A kernel's name, and the numbers of the values that it reads and fills."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class CalledKernels:
    """The values of a region, inputs and constants first, the steps over them, and which values it gives."""

    values: tuple[TensorSpec, ...]
    steps: tuple[CalledKernel, ...]
    outputs: tuple[int, ...]

    def text(self) -> str:
        """The JSON text of which :meth:`of` makes it again."""
        steps = [[s.name, s.inputs, s.outputs] for s in self.steps]
        return json.dumps([[v.to_json() for v in self.values], steps, self.outputs])

    @staticmethod
    def of(text: str) -> CalledKernels:
        """What :meth:`text` gave."""
        values, steps, outputs = json.loads(text)
        return CalledKernels(
            tuple(TensorSpec.from_json(v) for v in values),
            tuple(CalledKernel(name, tuple(inputs), tuple(made)) for name, inputs, made in steps),
            tuple(outputs),
        )


def steps_in(handle: Any, symbol: str) -> CalledKernels | None:
    """The steps of *symbol* in the opened library *handle*; None where it is no region of declared kernels."""
    try:
        return CalledKernels.of(_FFI.string(getattr(handle, f"{symbol}_steps")).decode())
    except (AttributeError, KeyError):  # what cffi raises for what is not there
        return None


def with_fenced_workspace(run: Callable[..., int], need: Callable[[object], int]) -> Callable[..., int]:
    """*run*, which takes arguments, sizes, a workspace of *need* bytes for these sizes, and a team; between fences, and
    of numbers that are none before it is written to.
    """

    def fenced(args: object, sizes: object, workspace: object, team: object) -> int:
        memory = Fenced(np.empty(need(sizes), np.uint8))
        memory.raise_fences()
        memory.bytes[...] = NEVER_WRITTEN
        status = run(args, sizes, _FFI.cast("uint8_t *", memory.bytes.ctypes.data), team)
        where = memory.broken()
        if where is not None:
            raise ContractError(
                f"it wrote {where} of its workspace, where the values between its steps lie: its function "
                "<symbol>_workspace says how many bytes these take"
            )
        return status

    return fenced


class ConstantsFunction(Protocol):
    """A function of native code, and the constants that it is given."""

    signature: Signature

    @property
    def constants(self) -> Sequence[np.ndarray]: ...


class CheckedSteps:
    """*function* of the opened library *handle*, whose kernels are *steps*: each is called by itself under *checks*."""

    def __init__(self, handle: Any, steps: CalledKernels, function: ConstantsFunction, checks: CallChecks):
        self.signature, self._constants = function.signature, list(function.constants)
        self._handle, self._steps, self._checks = handle, steps, checks

    def __call__(self, *arrays: object) -> None:
        self.bind([from_any(a) for a in arrays])()

    def bind(self, arrays: Sequence[np.ndarray]) -> Callable[[], None]:
        """A call on just these arrays, inputs and then outputs."""
        count = len(self.signature.inputs)

        def call() -> None:
            self._run([np.asarray(a, order="C") for a in arrays[:count]], arrays[count:])

        return call

    def call_returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the function, in new arrays."""
        outputs = self.signature.empty_outputs(inputs)
        self._run([np.asarray(a, order="C") for a in inputs], outputs)
        return outputs

    def _run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        sizes = self.signature.bind_sizes(inputs)
        bound = {name: sizes[name] for name in self.signature.size_names}
        values: dict[int, np.ndarray] = dict(enumerate([*inputs, *self._constants]))
        for number, spec in enumerate(self._steps.values):
            if number not in values:
                values[number] = Fenced(np.empty(spec.concrete_shape(bound), numpy_dtype(spec.dtype))).array
        for number in range(len(self._steps.steps)):
            self._run_step(number, values, bound)
        for output, number in zip(outputs, self._steps.outputs, strict=True):
            np.copyto(output, values[number])

    def _run_step(self, number: int, values: Mapping[int, np.ndarray], sizes: Mapping[str, int]) -> None:
        """Call one kernel. Raises ContractError that names it."""
        step, first = self._steps.steps[number], len(self.signature.inputs)
        names = self._names()
        own = {n: names[n] for n in step.inputs if first <= n < first + len(self._constants)}
        read = [n for n in step.inputs if n not in own]
        specs = [replace(v, name=names[n]) for n, v in enumerate(self._steps.values)]
        named = Signature(step.name, tuple(specs[n] for n in read), tuple(specs[n] for n in step.outputs))
        places = [*read, *step.outputs]
        arrays = [values[n] for n in places]
        constants = {name: values[n] for n, name in own.items()}
        given = CallArrays.of_kernel(self._checks, arrays, len(read), named, constants)
        guarded = {**values, **dict(zip(places, given.arrays, strict=True))}
        guarded |= {n: given.constants[name] for n, name in own.items()}
        table = _FFI.new("void *[]", [_FFI.cast("void *", guarded[n].ctypes.data) for n in range(len(values))])
        size_args = _FFI.new("int64_t[]", list(sizes.values()))

        def work() -> None:
            getattr(self._handle, f"{self.signature.symbol}_step")(number, table, size_args)

        try:
            CheckedCall(work, self._checks, given)()
        except ContractError as error:
            raise ContractError(f"kernel {step.name}, step {number + 1} of {len(self._steps.steps)}: {error}") from None

    def _names(self) -> dict[int, str]:
        """What values are called: in the signature, or in the source."""
        known = [*self.signature.inputs, *self.signature.constants]
        names = {n: known[n].name if n < len(known) else spec.name for n, spec in enumerate(self._steps.values)}
        for spec, number in zip(self.signature.outputs, self._steps.outputs, strict=True):
            names[number] = names[number] if number < len(known) else spec.name
        return names
