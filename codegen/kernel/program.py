"""A function as generated code sees it: placeholders, constants, and stages that each fill one tensor.

Made by ``byoc.codegen.kernel.lower`` from a Relay function; read by the writers of C and of OpenCL. The identity of a
``te.Tensor`` is the identity of a buffer. Every stage loads only from inputs, constants and earlier stages, or in a
recurrence (``te.recurrence``) from steps before its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from byoc.codegen.kernel.loops import Stmt
from byoc.errors import InternalError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature
from byoc.te import Dimension, PrimExpr, Size, Tensor
from byoc.te.walk import checks_of, loaded_tensors, unique_nodes


@dataclass(frozen=True)
class Group:
    """Stages that were fused: they become one C function, or one kernel a stage in OpenCL.

    ``name`` is a C identifier, unique in the program (``fused_nn_conv2d_add_nn_relu_1``); ``title`` the same without
    a number, which equal groups share; ``origin`` the names of the ONNX nodes that it computes. ``local`` are stages
    that need no buffer of the program: the group keeps a part of them at a time, and nothing else reads them.
    ``operators`` are the names of those that it computes, in order.
    """

    name: str
    origin: tuple[str, ...]
    stages: tuple[Tensor, ...]
    title: str = ""
    local: tuple[Tensor, ...] = ()
    operators: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks of indices that it makes."""
        return checks_of([s.body for s in self.stages if s.body is not None])

    @property
    def stored(self) -> tuple[Tensor, ...]:
        """The stages that have a buffer."""
        return tuple(s for s in self.stages if s not in self.local)


@dataclass(frozen=True)
class RoutineGroup(Group):
    """A group whose stages have no expression: they are what statements fill, all of them together.

    ``reads`` are the tensors that these load; between two of ``blocks`` belongs a barrier. ``made_checks`` are the
    checks of indices inside. ``wraps``: there is arithmetic on integers, whose overflow must wrap.
    """

    reads: tuple[Tensor, ...] = ()
    blocks: tuple[tuple[Stmt, ...], ...] = ()
    made_checks: tuple[str, ...] = ()
    wraps: bool = False

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks of indices that it makes."""
        return self.made_checks


@dataclass(frozen=True)
class Program:
    """One symbol: its inputs, constants, outputs (stages, in order) and groups in execution order.

    Inputs and constants are only read. Raises InternalError for a stage that fills one of them, or that stands twice.
    A program of a *routine* has that in place of groups: nothing of it is scheduled. One with a
    *batch*, a number or a Size, computes one of so many items: its inputs and outputs hold one, where the signature's
    hold all.
    """

    symbol: str
    signature: Signature
    inputs: tuple[Tensor, ...]
    constants: tuple[tuple[Tensor, NDArray], ...]
    outputs: tuple[Tensor, ...]
    groups: tuple[Group, ...]
    routine: RoutineGroup | None = None
    batch: Dimension | None = None

    def __post_init__(self) -> None:
        filled = {*self.inputs, *(t for t, _ in self.constants)}
        for stage in (s for g in self.parts for s in g.stages):
            if stage in filled:
                raise InternalError(f"{self.symbol}: stage {stage.name} fills an input, a constant or a stage's memory")
            filled.add(stage)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of the sizes known at run time, in the order in which they are passed."""
        return self.signature.size_names

    @property
    def parts(self) -> tuple[Group, ...]:
        """Its groups, or its routine."""
        return self.groups if self.routine is None else (self.routine,)

    @property
    def temporaries(self) -> tuple[Tensor, ...]:
        """Every stage with a buffer that is not an output: buffers that live only during a run."""
        return tuple(s for g in self.parts for s in g.stored if s not in self.outputs)


def holds_batch(shape: Sequence[Dimension | str | None], size: Dimension) -> bool:
    """Whether *size*, a number or a Size, is the first dimension of *shape*: the items lie one behind the other.

    A signature's shape has the names of sizes.
    """
    if not shape:
        return False
    return shape[0] == (size.name if isinstance(size, Size) and isinstance(shape[0], str) else size)


def group_of_stages(program: Program, stages: Sequence[Tensor], last: Tensor) -> Group:
    """The group that fills *last*, with the ONNX nodes and the operators of all groups of *stages*."""
    groups = [g for g in program.groups if any(s in stages for s in g.stages)]
    origin = tuple(dict.fromkeys(n for g in groups for n in g.origin))
    operators = tuple(name for g in groups for name in g.operators)
    return replace(next(g for g in groups if last in g.stages), origin=origin, operators=operators)


def group_sizes(group: Group) -> tuple[str, ...]:
    """The names of the sizes on which the code of *group* depends, in the order of their first use."""
    found: dict[str, None] = {}
    if isinstance(group, RoutineGroup):
        shapes = (d for t in (*group.reads, *group.stages) for d in t.shape if isinstance(d, PrimExpr))
        return tuple(dict.fromkeys(n.name for d in shapes for n in unique_nodes(d) if isinstance(n, Size)))
    for stage in group.stages:
        nodes = list(unique_nodes(stage.element))
        found.update((n.name, None) for n in nodes if isinstance(n, Size))
        tensors = (stage, *loaded_tensors(stage.element))
        dims = [d for t in tensors for d in t.shape]
        dims += [a.extent for n in nodes for a in getattr(n, "axes", ())]
        for dim in (d for d in dims if isinstance(d, PrimExpr)):
            found.update((n.name, None) for n in unique_nodes(dim) if isinstance(n, Size))
    return tuple(found)
