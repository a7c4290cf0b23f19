"""What writes a region as a program of steps (``region_program.py``): the numbers of its values, steps, constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.contract import RegionGenerator, RegionNode
from byoc.contrib.region_program import RegionProgram, step
from byoc.ir.attrs import Attrs
from byoc.runtime.core.signature import Signature, TensorSpec


class ProgramGenerator(RegionGenerator[int]):
    """Values are numbers. A backend's own writes its calls by :meth:`written`, and makes its module of the program."""

    def construct(self) -> None:
        self.count = 0
        self.steps: list[dict[str, object]] = []
        self.specs: list[TensorSpec] = []

    def input(self, spec: TensorSpec) -> int:
        return self._next()

    def constant(self, spec: TensorSpec, array: np.ndarray) -> int:
        self.specs.append(spec)
        return self._next()

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def written(self, node: RegionNode, arguments: Sequence[int], attrs: Attrs | None) -> list[int] | int:
        """A step for *node*, which reads *arguments*: the number of its result, or those of several."""
        self.steps.append(step(node.name, arguments, {} if attrs is None else dict(attrs.items()), node.outputs))
        made = [self._next() for _ in node.outputs]
        return made if len(made) != 1 else made[0]

    def program(self, results: Sequence[int]) -> tuple[RegionProgram, Signature]:
        """The program that gives *results*, and the signature of its symbol."""
        program: RegionProgram = {
            "inputs": len(self.inputs),
            "constants": [spec.name for spec in self.specs],
            "steps": self.steps,
            "outputs": list(results),
        }
        return program, Signature(self.symbol, tuple(self.inputs), tuple(self.outputs), tuple(self.specs))
