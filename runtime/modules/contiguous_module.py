"""Modules whose functions are given arrays in the order of their axes alone, whatever the caller has."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.ndarray import from_any
from byoc.runtime.core.signature import Signature
from byoc.runtime.modules.module import Module, PackedFunction


class ContiguousModule(Module):
    """The symbols of *signatures* as functions of inputs, then outputs. A subclass has :meth:`run`."""

    def __init__(self, signatures: Sequence[Signature]):
        super().__init__()
        self.signatures = {s.symbol: s for s in signatures}

    @abstractmethod
    def run(
        self, symbol: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
    ) -> None:
        """Fill *outputs* of *symbol*, whose free dimensions have *sizes*; all arrays lie in the order of their axes."""

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name in self.symbols:
            return functools.partial(self._call, name)
        return super().get_function(name, query_imports)

    def _call(self, symbol: str, *args: object) -> None:
        """Inputs, then outputs, which are filled. Raises InputError for arrays that do not fit, and what runs raise."""
        signature = self.signatures[symbol]
        given, targets = signature.divided([from_any(a) for a in args])
        inputs = [np.asarray(a, order="C") for a in given]
        outputs = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in targets]
        self.run(symbol, inputs, outputs, signature.bind_sizes(inputs))
        for target, found in zip(targets, outputs, strict=True):
            if target is not found:
                np.copyto(target, found)
