"""The constants of a program for a GPU, among which some are made from others before kernels are written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import ProgramConstants
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Tensor


class ProgramWeights(ProgramConstants):
    """Constants that are made once for a name."""

    def __init__(self, program: Program):
        super().__init__(program)
        self._by_name = {name: tensor for tensor, name in self.names.items()}

    def made(self, name: str, like: Tensor, make: Callable[[], np.ndarray]) -> Tensor:
        """The constant *name*, of the dtype of *like*; *make* makes its array where there is none yet."""
        if name not in self._by_name:
            data = NDArray(np.asarray(make(), order="C"))
            known = None if like.known is None else data.numpy()
            tensor = self._by_name[name] = Tensor("weights", data.shape, like.dtype, known=known)
            self.add(tensor, name, data)
        return self._by_name[name]
