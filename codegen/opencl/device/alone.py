"""Stages of a program as a program of their own, with names that do not depend on the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from byoc.codegen.kernel.program import Group, Program
from byoc.errors import CompileError
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import PrimExpr, Tensor
from byoc.te.tensor import Load
from byoc.te.walk import checks_of, loaded_tensors, map_expr

GROUP = "kernel"


def tensors_outside(stages: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What *stages* load beside one another, in the order of its first use."""
    return tuple(dict.fromkeys(t for s in stages for t in loaded_tensors(s.element) if t not in stages))


def alone(
    stages: Sequence[Tensor],
    targets: Sequence[Tensor],
    symbol: str,
    local: Collection[Tensor] = (),
    scheduled: bool = False,
) -> Program:
    """The program *symbol* of *stages*, whose outputs are the *targets* among them; what else they load is an input.

    *local* are stages that have no buffer; with *scheduled* what was decided about schedules is kept.

    Raises CompileError for a stage with a dimension that is no number.
    """
    loaded = tensors_outside(stages)
    tags = {t: t.tag if scheduled else "" for t in loaded}
    table = {t: Tensor(f"in{k}", t.shape, t.dtype, tag=tags[t], known=t.known) for k, t in enumerate(loaded)}
    inputs = tuple(table.values())

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Load) and e.tensor in table:
            return e.of(table[e.tensor], [map_expr(i, leaf) for i in e.indices])
        return None

    for k, stage in enumerate(stages):
        body, meta = map_expr(stage.element, leaf), stage.meta if scheduled else None
        table[stage] = Tensor(f"stage{k}", stage.shape, stage.dtype, stage.axes, body, stage.tag, meta)
    new = tuple(table[s] for s in stages)
    outputs = tuple(table[s] for s in targets)
    group = Group(GROUP, (), new, GROUP, tuple(table[s] for s in stages if s in local))
    signature = Signature(
        symbol,
        tuple(_spec(t, f"input_{k}") for k, t in enumerate(inputs)),
        tuple(_spec(t, f"output_{k}") for k, t in enumerate(outputs)),
        (),
        checks=checks_of([s.element for s in new]),
    )
    return Program(symbol, signature, inputs, (), outputs, (group,))


def _spec(tensor: Tensor, name: str) -> TensorSpec:
    if not all(isinstance(d, int) for d in tensor.shape):
        raise CompileError(f"{tensor.name} has a dimension that is no number, so that it cannot be tried alone")
    return TensorSpec(name, tuple(d for d in tensor.shape if isinstance(d, int)), tensor.dtype)
