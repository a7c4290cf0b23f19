"""Calls of the library's functions from the machine: arguments checked, outputs made.

A function takes NDArrays, inputs then outputs, which it fills; one whose output shapes are known only afterwards gives
them (``call_returning``, as numpy kernels do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import ArtifactError, IndexOutsideError, InputError, UserError
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.graph.graph import LoopCall, LoopResult
from byoc.runtime.modules.module import Module, PackedFunction
from byoc.runtime.vm.program import PackedSymbol


class LibraryCalls:
    """The symbols of one program bound to the functions of *library*, each looked up on its first call."""

    def __init__(self, symbols: Sequence[PackedSymbol], library: Module | None):
        self._symbols, self._library = symbols, library
        self._functions: dict[int, PackedFunction] = {}

    def call(self, index: int, args: Sequence[NDArray]) -> list[NDArray]:
        """The outputs of symbol *index* for *args*.

        Raises InputError for an argument that does not fit, ArtifactError where the library lacks the symbol, UserError
        for a function that cannot give outputs of unknown size.
        """
        function = self._functions.get(index) or self._function(index)
        returning = getattr(function, "call_returning", None)
        if returning is None:
            return self._filled(self._symbols[index], function, args)
        try:
            return [NDArray(result) for result in returning([arg.numpy() for arg in args])]
        except IndexOutsideError:  # it names the node of the model
            raise
        except InputError as error:
            raise InputError(f"{self._symbols[index].symbol}: {error}") from error

    def loop(self, index: int, call: LoopCall, args: Sequence[NDArray]) -> LoopResult | None:
        """Runs of symbol *index* as *call* says, the first for *args*; None where the function has no such."""
        function = self._functions.get(index) or self._function(index)
        run: Callable[..., LoopResult | None] | None = getattr(function, "loop", None)
        if run is None:
            return None
        try:
            return run(call, [arg.numpy() for arg in args])
        except IndexOutsideError:
            raise
        except InputError as error:
            raise InputError(f"{self._symbols[index].symbol}: {error}") from error

    def _filled(self, symbol: PackedSymbol, function: PackedFunction, args: Sequence[NDArray]) -> list[NDArray]:
        """The outputs of a function that fills them."""
        sizes = Sizes()
        for spec, arg in zip(symbol.inputs, args, strict=True):
            try:
                spec.bind(arg.numpy(), sizes)
            except InputError as error:
                raise InputError(f"{symbol.symbol}: {error}") from error
        outputs = []
        for spec in symbol.outputs:
            if any(not (isinstance(d, int) or sizes.determines(d)) for d in spec.shape):
                raise UserError(
                    f"{symbol.symbol}: output {spec.name}{spec} has a size that its inputs do not determine, and the "
                    "function of its module cannot return it: keep the operator on the host"
                )
            outputs.append(NDArray(np.empty(spec.concrete_shape(sizes), numpy_dtype(spec.dtype))))
        function(*args, *outputs)
        return outputs

    def _function(self, index: int) -> PackedFunction:
        if index not in self._functions:
            name = self._symbols[index].symbol
            found = self._library.get_function(name, True) if self._library is not None else None
            if found is None:
                raise ArtifactError(f"the library has no function {name!r}: load the one that was saved with the code")
            self._functions[index] = found
        return self._functions[index]
