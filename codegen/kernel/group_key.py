"""Whether two groups are the same: a key of what a group computes, however its tensors and the model are called.

Equal keys mean equal C, so that a block which a model repeats is scheduled, written and compiled once. Constants are
arguments of a group's function: their values are no part of the key, only that they are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from byoc.codegen.kernel.program import Group
from byoc.te import Dimension, Index, PrimExpr, Size, Tensor
from byoc.te.expr import Binary, Cast, Checked, Const, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands

Key = tuple[object, ...]


def group_key(group: Group, constants: Collection[Tensor]) -> Key:
    """The key of *group*; *constants* are those of the tensors that it loads which are constants of the program."""
    numbering = _Numbering(constants)
    outer = tuple(numbering.stage(stage) for stage in group.stages)
    local = tuple(stage in group.local for stage in group.stages)
    return (group.title, outer, local, tuple(numbering.rows))


class _Numbering:
    """Expressions as rows: each node once, its operands by their rows, so that what is shared stays shared."""

    def __init__(self, constants: Collection[Tensor]):
        self._constants = constants
        self._seen: dict[object, int] = {}
        self._alive: list[PrimExpr] = []  # an identity is one only as long as its node lives
        self._stages: set[Tensor] = set()
        self._checks: dict[str, int] = {}
        self.rows: list[Key] = []

    def stage(self, tensor: Tensor) -> Key:
        """The key of one stage; a later one that loads it names it by its number."""
        axes = tuple(self.expr(axis) for axis in tensor.axes)
        body = self.expr(tensor.body) if tensor.body is not None else None
        self._stages.add(tensor)
        return (self.tensor(tensor), axes, body, tensor.tag, repr(sorted(tensor.meta.items())))

    def tensor(self, tensor: Tensor) -> int:
        """The number of *tensor*: what it is, but for a name where it comes from outside of the group."""
        if tensor not in self._seen:
            inside = tensor.name if tensor in self._stages else ""
            shape = tuple(self.dimension(d) for d in tensor.shape)
            self._add(tensor, (inside, tensor in self._constants, tensor.dtype, shape))
        return self._seen[tensor]

    def check(self, name: str) -> int:
        """The number of a check of indices: what it is called is the model's matter."""
        return self._checks.setdefault(name, len(self._checks))

    def dimension(self, dim: Dimension) -> object:
        """A number as it is, a size by its name, another expression by its row."""
        if isinstance(dim, int):
            return dim
        return ("size", dim.name) if isinstance(dim, Size) else ("row", self.expr(dim))

    def expr(self, expr: PrimExpr) -> int:
        """The row of *expr*, after those of its operands."""
        stack = [expr]
        while stack:
            node = stack[-1]
            waiting = [e for e in operands(node) if id(e) not in self._seen]
            if id(node) in self._seen or not waiting:
                stack.pop()
                if id(node) not in self._seen:
                    below = tuple(self._seen[id(e)] for e in operands(node))
                    self._alive.append(node)
                    self._add(id(node), (type(node).__name__, node.dtype, below, *_FACTS[type(node)](self, node)))
            else:
                stack.extend(reversed(waiting))
        return self._seen[id(expr)]

    def _add(self, thing: object, row: Key) -> None:
        self._seen[thing] = len(self.rows)
        self.rows.append(row)


_FACTS: dict[type, Callable[..., Key]] = {
    Const: lambda numbering, e: (repr(e.value),),
    Index: lambda numbering, e: (e.name, numbering.dimension(e.extent)),
    Size: lambda numbering, e: (e.name,),
    Binary: lambda numbering, e: (e.op,),
    Intrinsic: lambda numbering, e: (e.name,),
    Cast: lambda numbering, e: (),
    Select: lambda numbering, e: (),
    Checked: lambda numbering, e: (numbering.check(e.check),),
    Load: lambda numbering, e: (numbering.tensor(e.tensor),),
    Reduce: lambda numbering, e: (e.kind, tuple(numbering.expr(a) for a in e.axes)),
}
