"""Which of the forms that passes state (``byoc.ir.passes.pass_info``) a function has."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.relay.adt import Match
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from byoc.relay.op.annotation import is_begin, is_end
from byoc.relay.op.device_placement import is_device_copy, is_on_device
from byoc.relay.traverse import children, post_order

_UNITS = ("Primitive", "Composite", "Compiler")
_ATOMS = (Var, Constant, Op, GlobalVar, Function)


def forms_of(func: Function, order: Sequence[RelayExpr]) -> frozenset[str]:
    """The names of the forms that *func* has, whose post-order is *order*."""
    groups = [n for n in order if type(n) is Function and "Primitive" in n.attrs and "Compiler" not in n.attrs]
    lets = [n for n in order if type(n) is Let and type(n.value) is not Function]
    found = {
        "typed": _is_typed(order),
        "graph_normal_form": not lets,
        "a_normal_form": _is_a_normal(func, order),
        "unfused": not groups,
        "fused": _is_fused(func),
        "no_region_marks": not any(map(_marks_a_region, order)),
        "no_device_marks": not any(map(_marks_a_device, order)),
    }
    return frozenset(name for name, holds in found.items() if holds)


def _marks_a_region(node: RelayExpr) -> bool:
    return is_begin(node) or is_end(node)


def _marks_a_device(node: RelayExpr) -> bool:
    return is_on_device(node) or is_device_copy(node)


def outside_of_units(node: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *node*, without the inside of groups, composites and regions."""
    is_unit = type(node) is Function and any(node.attrs.get(key) for key in _UNITS)
    return () if is_unit else children(node)


def _is_typed(order: Sequence[RelayExpr]) -> bool:
    """Operators and global names have their types where they stand, not in the graph."""
    return all(node._checked_type is not None or isinstance(node, (Op, GlobalVar)) for node in order)


def _is_fused(func: Function) -> bool:
    """True where each operator's call is inside a group, a composite or a region, or marks one or a device."""
    outside = (n for n in post_order(func.body, outside_of_units) if type(n) is Call and type(n.op) is Op)
    return all(_marks_a_region(call) or _marks_a_device(call) for call in outside)


def _is_a_normal(func: Function, order: Sequence[RelayExpr]) -> bool:
    """True where what a call, a tuple or a projection reads has a name, outside of functions that are a unit."""
    for node in post_order(func, outside_of_units):
        if isinstance(node, (Call, Tuple, TupleGetItem)):
            inner = children(node)
        else:
            inner = (node.cond,) if isinstance(node, If) else (node.data,) if isinstance(node, Match) else ()
        if not all(isinstance(child, _ATOMS) or not _computes(child) for child in inner):
            return False
    return True


def _computes(node: RelayExpr) -> bool:
    return isinstance(node, (Call, Tuple, TupleGetItem, If, Let, Match))
