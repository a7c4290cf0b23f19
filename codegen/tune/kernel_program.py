"""A space's kernel as a program of its own, to be compiled for each candidate, and data to run it on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from byoc.codegen.c.contraction.padding import PAD
from byoc.codegen.kernel.choice import SearchSpace
from byoc.codegen.kernel.inline import SYMBOLIC_EXTENT
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.rewrite_stages import with_body
from byoc.codegen.tune.arrays import aligned
from byoc.errors import CompileError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import PrimExpr, Size, Tensor, placeholder
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes


def kernel_program(space: SearchSpace, symbol: str) -> Program:
    """The program *symbol* of the space's stage, and of the padding that it reads, alone.

    What these load and is no constant is an input. Raises CompileError for a stage with a dimension that is neither a
    number nor a named size.
    """
    stages = _with_padding(space.stage)
    loaded = dict.fromkeys(t for s in stages for t in loaded_tensors(s.element) if t not in stages)
    free = {t: placeholder(t.shape, t.dtype, t.name) for t in loaded if t not in space.constants}
    stages = _over(stages, free)
    stage, inputs = stages[-1], tuple(free.values())
    constants = tuple((t, space.constants[t]) for t in loaded if t in space.constants)
    signature = Signature(
        symbol,
        tuple(_spec(t, f"input_{k}") for k, t in enumerate(inputs)),
        (_spec(stage, "output"),),
        tuple(TensorSpec(f"{symbol}_const_{k}", a.shape, a.dtype) for k, (_, a) in enumerate(constants)),
    )
    return Program(symbol, signature, inputs, constants, (stage,), (Group("kernel", (), stages, "kernel"),))


def _with_padding(stage: Tensor) -> tuple[Tensor, ...]:
    """*stage* after the stages that do nothing but pad what it reads: schedules look at both."""
    pads = [t for t in loaded_tensors(stage.element) if t.tag == PAD and t.body is not None]
    return (*pads, stage)


def _over(stages: Sequence[Tensor], new: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """*stages* over other tensors, and over each other."""
    table = dict(new)

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Load) and e.tensor in table:
            return e.of(table[e.tensor], [map_expr(i, leaf) for i in e.indices])
        return None

    for stage in stages:
        table[stage] = with_body(stage, map_expr(stage.element, leaf))
    return tuple(table[stage] for stage in stages)


def _spec(tensor: Tensor, name: str) -> TensorSpec:
    dims = [d.name if isinstance(d, Size) else d for d in tensor.shape]
    known = tuple(d for d in dims if isinstance(d, int | str))
    if len(known) != len(dims):
        raise CompileError(f"{tensor.name} has a dimension that is neither a number nor a named size")
    return TensorSpec(name, known, tensor.dtype)


def inputs_for(program: Program) -> list[np.ndarray]:
    """Inputs for *program*: numbers as activations have them, zeros for what is used as an index."""
    places = {t for group in program.groups for stage in group.stages for t in _index_tensors(stage)}
    random = np.random.default_rng(0)
    inputs = []
    for tensor, spec in zip(program.inputs, program.signature.inputs, strict=True):
        array = aligned(_shape(spec), numpy_dtype(spec.dtype))
        if tensor not in places:
            array[...] = _values(array.shape, array.dtype, random)
        inputs.append(array)
    return inputs


def output_of(program: Program) -> tuple[tuple[int, ...], str]:
    """The shape and the dtype of what *program* gives for :func:`inputs_for`."""
    output = program.signature.outputs[0]
    return _shape(output), output.dtype


def _index_tensors(stage: Tensor) -> Iterator[Tensor]:
    """What *stage* loads in the indices of other loads."""
    for node in unique_nodes(stage.element):
        if isinstance(node, Load):
            yield from (n.tensor for i in node.indices for n in unique_nodes(i) if isinstance(n, Load))


def _values(shape: tuple[int, ...], dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    if dtype.kind in "biu":
        return random.integers(0, 2 if dtype.kind == "b" else 5, shape)
    return random.standard_normal(shape, "float32")


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else SYMBOLIC_EXTENT for d in spec.shape)
