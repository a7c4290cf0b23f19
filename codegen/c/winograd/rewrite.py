"""Convolutions of a Program done by Winograd's method where that is faster and the error is allowed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.winograd.convolution import Convolution, convolution, is_padded
from byoc.codegen.c.winograd.options import WinogradChooser, WinogradOptions
from byoc.codegen.c.winograd.sizes import WinogradPlan
from byoc.codegen.c.winograd.stages import transformed_weights, weights_tensor, winograd_stages
from byoc.codegen.kernel.choice import Choices
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import ProgramConstants, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Tensor
from byoc.te.walk import loaded_tensors

LARGEST = 1e30  # of weights whose transform is taken to be finite in float32
Choose = Callable[[Convolution], "WinogradPlan | None"]


def use_winograd(
    program: Program, machine: Machine, allowed: WinogradOptions, choices: Choices | None = None
) -> Program:
    """*program* with convolutions done by it as is *allowed*, where *choices* or else the cost model say so."""
    if not allowed.outputs:
        return program
    return with_plans(program, WinogradChooser(machine, allowed, choices, dict(program.constants)).plan)


def with_plans(program: Program, choose: Choose) -> Program:
    """*program* with each convolution for which *choose* gives a plan done by it; without one, itself."""
    return _Rewriting(program, choose).run()


def has_transform(weights: np.ndarray) -> bool:
    """Whether sums of *weights* are numbers: an infinity would reach all of a tile, and NaN where they meet."""
    return bool((np.abs(weights) <= LARGEST).all())


class _Rewriting:
    def __init__(self, program: Program, choose: Choose):
        self.program = program
        self.constants = ProgramConstants(program)
        self.arrays = self.constants.arrays
        self.weights: dict[tuple[object, ...], Tensor] = {}
        self.readers: dict[Tensor, int] = {}
        groups = {s: g for g in program.groups for s in g.stages}
        stages = list(groups)
        for tensor in (t for s in stages for t in loaded_tensors(s.element)):
            self.readers[tensor] = self.readers.get(tensor, 0) + 1
        simplify = Simplifier()
        self.chosen: dict[Tensor, tuple[Convolution, WinogradPlan]] = {}
        for stage in stages:
            conv = convolution(stage, self.arrays, simplify)
            plan = choose(conv) if conv is not None and has_transform(self.arrays[conv.weights].numpy()) else None
            if conv is not None and plan is not None:
                self.chosen[stage] = conv, plan
        self.absorbed = {
            conv.image
            for conv, _ in self.chosen.values()
            if groups.get(conv.image) is groups[conv.stage]
            and conv.image not in program.outputs
            and self.readers[conv.image] == 1
            and is_padded(conv.image)
        }

    def run(self) -> Program:
        if not self.chosen:
            return self.program
        pads: dict[Tensor, Tensor] = {}  # as renamed

        def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
            if stage in self.absorbed:
                pads[stage] = renamed
                return []
            if stage not in self.chosen:
                return [renamed]
            conv, plan = self.chosen[stage]
            pad = pads.get(conv.image)
            new = convolution(renamed, self.arrays, Simplifier())
            assert new is not None
            return winograd_stages(new, pad, self._weights(new, plan), plan)

        program = with_stages(self.program, change)
        return self.constants.of(program)

    def _weights(self, conv: Convolution, plan: WinogradPlan) -> Tensor:
        key = (conv.weights, conv.order, plan.outputs, plan.panel)
        if key not in self.weights:
            tensor = weights_tensor(f"{conv.weights.name}_winograd", plan)
            name = f"{self.constants.names[conv.weights]}_winograd_{len(self.weights) + 1}"
            array = transformed_weights(self.arrays[conv.weights].numpy(), conv, plan)
            self.constants.add(tensor, name, NDArray(array))
            self.weights[key] = tensor
        return self.weights[key]
