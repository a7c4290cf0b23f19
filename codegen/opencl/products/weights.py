"""The constants of a program, among which some are made anew from others before kernels are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from byoc.codegen.kernel.program import Program
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.te import Tensor
from byoc.te.walk import loaded_tensors


class ProgramWeights:
    """The constants of *program* and what is made of them."""

    def __init__(self, program: Program):
        self.arrays: dict[Tensor, NDArray] = dict(program.constants)
        self._names = {t: s.name for (t, _), s in zip(program.constants, program.signature.constants, strict=True)}
        self._by_name = {name: tensor for tensor, name in self._names.items()}

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self.arrays

    def name(self, tensor: Tensor) -> str:
        """That of a constant in the signature."""
        return self._names[tensor]

    def made(self, name: str, like: Tensor, make: Callable[[], np.ndarray]) -> Tensor:
        """The constant *name*, of the dtype of *like*; *make* makes its array where there is none yet."""
        if name not in self._by_name:
            data = NDArray(np.asarray(make(), order="C"))
            known = None if like.known is None else data.numpy()
            tensor = Tensor("weights", data.shape, like.dtype, known=known)
            self.arrays[tensor], self._names[tensor], self._by_name[name] = data, name, tensor
        return self._by_name[name]

    def of(self, program: Program) -> Program:
        """*program* with those constants that it reads."""
        used = {t for g in program.groups for s in g.stages for t in loaded_tensors(s.element)}
        constants = tuple((t, a) for t, a in self.arrays.items() if t in used)
        specs = tuple(TensorSpec(self._names[t], a.shape, a.dtype) for t, a in constants)
        signature = dataclasses.replace(program.signature, constants=specs)
        return dataclasses.replace(program, constants=constants, signature=signature)
