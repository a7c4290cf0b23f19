"""What is looked at when a backend's function has run: its results always, the memory around it where somebody asks.

``BYOC_CHECK=1`` in the environment, read when a library's regions are first used, guards every call of a backend:
outputs are filled with a pattern before the call, and looked at behind it; inputs and constants are copied, compared
and put back; the arrays are copies between fences (``fences.py``); an output with NaNs, where no input has one, is
reported. ``BYOC_CHECK=outputs,inputs,edges`` asks for some of it. Such runs are slow, and a call is made twice where a
pattern that is left may be a result. Source: the poisoned memory of address sanitizers, and the trapping NaNs of
floating-point units.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from byoc.runtime.core.errors import ContractError, InputError, UserError
from byoc.runtime.core.ndarray import dtype_name, from_any
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.region.fences import FLOATS, OTHERS, FencedArrays, is_float
from byoc.runtime.region.vendor_time_limit import keeps_time

VARIABLE = "BYOC_CHECK"
KINDS = ("outputs", "inputs", "nan", "edges")
_FLOATS, _OTHERS = (FLOATS, b"\x7f"), (OTHERS, b"\x5a")  # a byte of the first pattern, and of the second
_UNSET = ("an output that was not filled", "the same, filled once more")  # of strings


@dataclass(frozen=True)
class CallChecks:
    """Which guards stand around a call: poisoned ``outputs``, protected ``inputs`` and constants, a trap for ``nan``,
    fences at the ``edges`` of all arrays.
    """

    outputs: bool = True
    inputs: bool = True
    nan: bool = True
    edges: bool = True


def checks_asked() -> CallChecks | None:
    """The guards that ``BYOC_CHECK`` asks for, None for none. Raises UserError for another text."""
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text in ("", "0"):
        return None
    if text == "1":
        return CallChecks()
    asked = [kind.strip() for kind in text.split(",")]
    if not set(asked) <= set(KINDS):
        raise UserError(f"${VARIABLE} is 1, or some of {','.join(KINDS)}, or 0 for none, got {text!r}")
    return CallChecks(*(kind in asked for kind in KINDS))


F = TypeVar("F")


def guarded(function: F, checks: CallChecks | None) -> F:
    """*function*; where there are *checks*, and it can be looked into, one that looks at each kernel inside."""
    with_checks = getattr(function, "with_checks", None)
    found: F = function if checks is None or with_checks is None else with_checks(checks)
    return found


def check_returned(result: object) -> None:
    """Raises ContractError for a function that returned *result*, where it was to fill its outputs."""
    if result is not None:
        raise ContractError(
            f"its function returned a {type(result).__name__}, and its outputs are not to be trusted: it fills the "
            "arrays that stand behind its inputs, for instance with byoc.runtime.fill_outputs, and returns None"
        )


def fill_outputs(outputs: Sequence[object], results: Sequence[object]) -> None:
    """Copy *results* into *outputs*, arrays of the same shapes and dtypes.

    >>> out = np.empty(2, "float32")
    >>> fill_outputs([out], [np.array([1, 2], "float32")]); out
    array([1., 2.], dtype=float32)

    Args:
        outputs: what stands behind the inputs of a module's function.
        results: what was computed.

    Raises:
        ContractError: there are more or fewer results, or one has another shape or dtype.
    """
    if len(outputs) != len(results):
        raise ContractError(f"{len(results)} results were computed, and there are {len(outputs)} outputs")
    for k, (output, result) in enumerate(zip(outputs, results, strict=True)):
        target, value = from_any(output), from_any(result)
        if (target.shape, target.dtype) != (value.shape, value.dtype):
            raise ContractError(f"result {k} is {_kind(value)}, and the output is {_kind(target)}")
        np.copyto(target, value)


def check_results(results: object, signature: Signature, inputs: Sequence[np.ndarray]) -> None:
    """Raises ContractError unless *results* are arrays as *signature* says, for *inputs*."""
    if not isinstance(results, (list, tuple)) or len(results) != len(signature.outputs):
        found = f"{len(results)} results" if isinstance(results, (list, tuple)) else f"a {type(results).__name__}"
        raise ContractError(f"its function gave {found}, and it has {len(signature.outputs)} outputs")
    sizes = signature.bind_sizes(inputs)
    for k, (result, spec) in enumerate(zip(results, signature.outputs, strict=True)):
        found = _kind(result) if isinstance(result, np.ndarray) else f"a {type(result).__name__}"
        try:
            if not isinstance(result, np.ndarray):
                raise InputError(found)
            spec.bind(result, sizes)
        except InputError:
            raise ContractError(f"its output {k} is {found}, and the graph has {spec.dtype}{spec}") from None


@dataclass(frozen=True)
class CallArrays:
    """What a call is given: inputs, *count* of them, then outputs; and what else its function may only read.

    With *count* None nothing is known of them, and nothing is looked at. *fences* have the arrays, where they are
    fenced, *constants* the region's by their names, and *constant_fences* these, where they are fenced.
    """

    arrays: Sequence[np.ndarray]
    count: int | None
    signature: Signature | None = None
    fences: FencedArrays | None = None
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    constant_fences: FencedArrays | None = None

    @classmethod
    def checked(
        cls,
        checks: CallChecks | None,
        arrays: Sequence[np.ndarray],
        count: int | None,
        signature: Signature | None,
        constants: Callable[[], Mapping[str, np.ndarray]],
    ) -> CallArrays:
        """Those of a call under *checks*."""
        if checks is None or count is None:
            return cls(arrays, count, signature)
        fences = FencedArrays(arrays, count) if checks.edges else None
        known = constants() if checks.inputs or checks.nan else {}
        return cls(arrays if fences is None else fences.arrays, count, signature, fences, known)

    @classmethod
    def of_kernel(
        cls,
        checks: CallChecks,
        arrays: Sequence[np.ndarray],
        count: int,
        signature: Signature,
        constants: Mapping[str, np.ndarray],
    ) -> CallArrays:
        """Those of a call of one kernel, which is given the *constants* that it reads too: where edges are looked at,
        this call's own copies of them.
        """
        made = cls.checked(checks, arrays, count, signature, lambda: constants)
        if not checks.edges:
            return replace(made, constants=constants)
        fences = FencedArrays(list(constants.values()), len(constants), first=len(arrays))
        return replace(made, constants=dict(zip(constants, fences.arrays, strict=True)), constant_fences=fences)


class CheckedCall:
    """The call *work* on *given*, with *checks* before and behind it. It is called as a whole, or begins and ends."""

    def __init__(
        self,
        work: Callable[[], object],
        checks: CallChecks,
        given: CallArrays,
    ):
        arrays, count = given.arrays, given.count
        self._work, self._checks, self._given, self._signature = work, checks, given, given.signature
        self._inputs = [] if count is None else list(arrays[:count])
        self._outputs = [] if count is None else list(arrays[count:])
        self._copies: list[tuple[int, np.ndarray, bytes | list[object]]] = []
        self.keeps_time = keeps_time(work)

    def __call__(self) -> object:
        """What *work* gives. Raises ContractError, and whatever it raises."""
        self.begin()
        try:
            result = self._work()
        except Exception:
            self._put_back()
            raise
        if result is None:
            self.end()
        return result

    def begin(self) -> None:
        """Get ready: inputs are copied, outputs filled with the pattern."""
        for fences in (self._given.fences, self._given.constant_fences):
            if fences is not None:
                fences.raise_fences()
        constants = self._given.constants
        self._constants = {name: _content(a) for name, a in constants.items()} if self._checks.inputs else {}
        own = [k for k, a in enumerate(self._inputs) if not any(np.may_share_memory(a, o) for o in self._outputs)]
        self._copies = [(k, self._inputs[k], _content(self._inputs[k])) for k in own if self._checks.inputs]
        self._had_nan = not self._checks.nan or any(map(_has_nan, (*self._inputs, *constants.values())))
        if self._checks.outputs:
            self._poison(0)

    def end(self, results: Sequence[np.ndarray] | None = None) -> None:
        """Look at the arrays after the call, or at the *results* that it returned. Raises ContractError."""
        changed = self._put_back()
        self._check_constants()
        self._check_edges()
        if changed:
            raise ContractError(
                f"it wrote to its input {', '.join(changed)}, which is the caller's memory or another node's: it may "
                "write to its outputs alone"
            )
        if self._checks.outputs and results is None:
            self._check_filled()
        if not self._had_nan:
            self._check_numbers(self._outputs if results is None else results)
        if self._given.fences is not None:
            self._given.fences.give()

    def _check_constants(self) -> None:
        for name, before in self._constants.items():
            array = self._given.constants[name]
            if _content(array) != before:
                _restore(array, before)
                raise ContractError(
                    f"it wrote to its constant {name}, which the next call and other regions read: it may write to its "
                    "outputs alone"
                )

    def _check_edges(self) -> None:
        given, count = self._given, len(self._inputs)
        kinds = [f"input {self._name('inputs', k)}" for k in range(count)]
        kinds += [f"output {self._name('outputs', k)}" for k in range(len(self._outputs))]
        constants = [f"constant {name}" for name in given.constants]
        for fences, names in ((given.fences, kinds), (given.constant_fences, constants)):
            broken = None if fences is None else fences.broken()
            if broken is not None:
                k, where = broken
                raise ContractError(
                    f"it wrote {where} of its {names[k]}, into memory that is another's: it may write to the elements "
                    "of its outputs alone"
                )

    def _put_back(self) -> list[str]:
        """Give inputs that were written to their content again; their names."""
        changed = []
        for k, array, before in self._copies:
            if _content(array) != before:
                changed.append(self._name("inputs", k))
                _restore(array, before)
        self._copies = []
        return changed

    def _poison(self, turn: int) -> None:
        for array in self._outputs:
            if array.dtype.hasobject:
                array[...] = _UNSET[turn]
            elif array.flags.c_contiguous:  # by bytes: a bool that is assigned becomes 0 or 1
                array.reshape(-1).view(np.uint8)[...] = _patterns(array)[turn][0]
            else:
                array[...] = np.frombuffer(_patterns(array)[turn] * array.itemsize, array.dtype)[0]

    def _check_filled(self) -> None:
        """Outputs in which the pattern is left, also where the call is made again over another one, were not filled."""
        left = [self._left(array, 0) for array in self._outputs]
        if not any(map(np.any, left)):
            return
        self._poison(1)
        self._work()
        for k, (array, before) in enumerate(zip(self._outputs, left, strict=True)):
            unset = before & self._left(array, 1)
            if unset.any():
                raise ContractError(
                    f"it left {np.count_nonzero(unset)} of {array.size} elements of its output "
                    f"{self._name('outputs', k)} unset, the first at {_first(unset)}: it must fill every element"
                )

    @staticmethod
    def _left(array: np.ndarray, turn: int) -> np.ndarray:
        """Where the pattern stands in *array*, elementwise."""
        if array.dtype.hasobject:
            return np.asarray([value is _UNSET[turn] for value in array.flat], bool).reshape(array.shape)
        pattern = np.frombuffer(_patterns(array)[turn], np.uint8)[0]
        found = np.asarray(array, order="C").reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
        return np.asarray((found == pattern).all(axis=1)).reshape(array.shape)

    def _check_numbers(self, outputs: Sequence[np.ndarray]) -> None:
        for k, array in enumerate(outputs):
            if _has_nan(array):
                where = np.isnan(array)
                raise ContractError(
                    f"its output {self._name('outputs', k)} has NaN in {np.count_nonzero(where)} of {array.size} "
                    f"elements, the first at {_first(where)}, and none of its inputs has one "
                    "(BYOC_CHECK=outputs,inputs,edges leaves this out, for a model that makes NaNs)"
                )

    def _name(self, which: str, k: int) -> str:
        specs: Sequence[TensorSpec] = getattr(self._signature, which, ())
        return f"{k} ({specs[k].name})" if k < len(specs) else str(k)


def _kind(array: np.ndarray) -> str:
    return f"{dtype_name(array.dtype)}{list(array.shape)}"


def _patterns(array: np.ndarray) -> tuple[bytes, bytes]:
    """The bytes that outputs like *array* are filled with: floats become NaNs."""
    return _FLOATS if is_float(array) else _OTHERS


def _has_nan(array: np.ndarray) -> bool:
    return is_float(array) and bool(np.isnan(array).any())


def _content(array: np.ndarray) -> bytes | list[object]:
    return list(array.flat) if array.dtype.hasobject else array.tobytes()


def _restore(array: np.ndarray, before: bytes | list[object]) -> None:
    """Give *array* the content *before* again, also where it is marked as one that is only read."""
    if isinstance(before, bytes) and array.flags.c_contiguous:
        ctypes.memmove(array.ctypes.data, before, len(before))


def _first(where: np.ndarray) -> list[int]:
    return [int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape)] if where.ndim else []
