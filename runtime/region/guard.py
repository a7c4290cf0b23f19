"""The guard of a region: its backend's function, the host's function that stands in for it, and what has failed.

One for each region of a library, whatever number of executors call it. Ensures: a backend that failed for inputs of
certain shapes is not tried again for these, and is for others, from its loading on (of the shapes that failed, the most
recent are known). Where nothing stands in, the error is raised, with region, nodes and stage in its sentence. Source:
Paddle Lite's subgraph engines, which launch the origin program where they cannot build their own.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.errors import ArtifactError, DeviceError, IndexOutsideError, InputError, RunTimeoutError
from byoc.runtime.fork import new_rlock
from byoc.runtime.ndarray import from_any
from byoc.runtime.region.call import RegionCall, called
from byoc.runtime.region.in_time import in_time
from byoc.runtime.region.lost import LostModule
from byoc.runtime.region.record import (
    DEVICE,
    INITIALIZE,
    LOAD,
    Fallback,
    Region,
    Shapes,
    StageError,
    explained,
    stage_of,
)
from byoc.runtime.signature import Signature

if TYPE_CHECKING:
    from byoc.runtime.module import Module, PackedFunction

KEPT_FAILURES = 64  # shapes for which a backend is known to fail
KEPT_RECORDS = 256


class RegionGuard:
    """*load* gives the backend's function, or raises StageError; *stand_in* gives the host's, where there is one."""

    def __init__(
        self,
        symbol: str,
        region: Region,
        load: Callable[[], PackedFunction],
        stand_in: Callable[[], PackedFunction] | None = None,
        signature: Signature | None = None,
    ):
        self.symbol, self.region, self.signature = symbol, region, signature
        self.fallbacks: deque[Fallback] = deque(maxlen=KEPT_RECORDS)
        self._load, self._stand_in = load, stand_in
        self._function: PackedFunction | None = None
        self._failures: OrderedDict[Shapes, None] = OrderedDict()
        self._lock = new_rlock()

    @property
    def has_stand_in(self) -> bool:
        """Whether the host runs the region where its backend fails."""
        return self._stand_in is not None

    def function(self) -> PackedFunction:
        """The backend's function, loaded and initialised. Raises StageError."""
        with self._lock:
            if self._function is None:
                self._function = self._load()
            return self._function

    @property
    def place(self) -> str:
        """What a run waits for that waits for the region."""
        return f"{self.region.target} computed {self.symbol} (nodes {', '.join(self.region.nodes)})"

    def host_function(self) -> PackedFunction:
        """The host's function for this region."""
        assert self._stand_in is not None
        return self._stand_in()

    def may_try(self, shapes: Shapes) -> bool:
        """Whether the backend is not known to fail for inputs of these shapes."""
        return shapes not in self._failures

    def failed(self, shapes: Shapes, error: Exception) -> None:
        """Record that the backend failed with *error*; where nothing stands in, raise it with its place."""
        stage, error = stage_of(error)
        if isinstance(error, IndexOutsideError | RunTimeoutError):  # the caller's, whoever computes
            raise error
        if not self.has_stand_in:
            if isinstance(error, (InputError, MemoryError)):
                raise error
            raise explained(self.symbol, self.region, stage, error) from error
        name, region = type(error).__name__, self.region
        with self._lock:
            self._failures[shapes] = None
            while len(self._failures) > KEPT_FAILURES:
                self._failures.popitem(last=False)
            self.fallbacks.append(
                Fallback(self.symbol, region.target, stage, name, str(error) or name, region.nodes, shapes)
            )


def load_function(owner: Module, symbol: str, initialize: Callable[[str], None], ask: bool) -> PackedFunction:
    """The function of *symbol*, which *initialize* gives its constants. Raises StageError.

    With *ask* its module says first whether it can run here.
    """
    stage = LOAD
    try:
        module = owner.found() if isinstance(owner, LostModule) else owner
        stage = DEVICE
        problem = module.unavailable() if ask else None
        if problem is not None:
            raise DeviceError(problem)
        stage = INITIALIZE
        initialize(symbol)
        stage = LOAD
        function = module.get_function(symbol)
        if function is None:
            raise ArtifactError(f"the module {module.type_key} has no function {symbol!r}")
    except Exception as error:  # whatever a vendor's code raises
        raise StageError(stage, error) from error
    return function


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
