"""Attributes of operators that reach a vendor's kernels, and the refusal of those that would be dropped.

A kernel declares the attributes that it computes by, as annotated keywords or as ``**attributes``. What it does not
declare must mean nothing in the call: it has the operator's default, names the dtype or axis that follows anyway, or is
one by which numpy's kernel, the operator's reference, does not compute either (``units`` of a dense layer, which its
weights give). A composite's kernel gets those attributes of the operators in it that it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass

from byoc.contract.axes import axis_count
from byoc.contract.verdict import callee_name, calls_in, place_of
from byoc.errors import CompileError
from byoc.ir.op import Op
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import AttrPattern, DFPattern
from byoc.relay.dataflow_pattern.pattern_graph import graph_of
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.json.table import Kernels, KernelTable, reference_attributes


def attributes_inside(composite: Function, table: Kernels) -> dict[str, object]:
    """The attributes of the operators in *composite* that its kernel in *table* declares.

    Raises CompileError where two operators in it have one of that name, of different values.
    """
    name = str(composite.attrs["Composite"])
    if name not in table:
        return {}
    kernel = table[name]
    found: dict[str, object] = {}
    for call in _calls(composite):
        for attr, value in _attributes(call):
            if attr not in kernel.attributes and not kernel.takes_all:
                continue
            if attr in found and found[attr] != value:
                if attr not in kernel.attributes:
                    continue
                raise CompileError(
                    f"the kernel {name!r} of table {table.name!r} declares {attr}, which operators in the composite "
                    f"have with different values ({found[attr]} and {value}): say which by composite_attributes"
                )
            found[attr] = value
    return found


def check_declared(
    region: Function,
    table: KernelTable,
    composites: Mapping[str, DFPattern],
    said: Callable[[Function], Mapping[str, object]],
) -> None:
    """Raises CompileError for an attribute that a kernel of *table* would not get and that means something.

    *composites* are the composites whose operators are asked as well, with their patterns: those whose pattern has no
    check. Where a backend says by *said* what a kernel gets of a composite, its kernel is asked for just that.
    """
    for call in _placed(region, table):
        name = callee_name(call)
        if not table.has_own(name) or table[name].takes_all:
            continue
        declared = table[name].attributes
        if isinstance(call.op, Op):
            _check(call, name, declared, table)
        elif isinstance(call.op, Function) and (own := _said(call.op, table, said)) is not None:
            _check_said(own, name, table)
        elif name in composites:
            fixed = asked_attributes(composites[name])
            for inner in calls_in(call):
                _check(inner, name, {**declared, **fixed}, table)


def _said(
    composite: Function, table: KernelTable, said: Callable[[Function], Mapping[str, object]]
) -> Mapping[str, object] | None:
    """What a backend says by *said* of *composite*; None where it is what its operators have."""
    own = said(composite)
    try:
        return None if dict(own) == attributes_inside(composite, table) else own
    except CompileError:  # they have two values of one name
        return own


def _check_said(said: Mapping[str, object], kernel: str, table: KernelTable) -> None:
    declared = table[kernel]
    for attr, value in said.items():
        if attr not in declared.attributes:
            raise CompileError(
                f"composite_attributes gives the kernel {kernel!r} of table {table.name!r} {attr}, which is {value!r}, "
                f"and it does not declare it: declare it as a keyword (*, {attr}: ...), take **attributes, or give it "
                f"no {attr}"
            )
    missing = sorted(declared.required - set(said))
    if missing:
        raise CompileError(
            f"the kernel {kernel!r} of table {table.name!r} needs {', '.join(missing)}, and composite_attributes gives "
            f"{', '.join(said) or 'nothing'}: give it, or declare a default"
        )


def _placed(region: Function, table: KernelTable) -> Iterator[Call]:
    """The calls of *region* that become nodes: those inside of composites without a kernel too."""
    pending = [region]
    while pending:
        for node in post_order(pending.pop().body, dataflow_children):
            if isinstance(node, Call):
                yield node
                if isinstance(node.op, Function) and callee_name(node) not in table:
                    pending.append(node.op)


def _calls(composite: Function) -> list[Call]:
    return [n for n in post_order(composite.body, dataflow_children) if isinstance(n, Call) and isinstance(n.op, Op)]


def _attributes(call: Call) -> list[tuple[str, object]]:
    return list(call.attrs.items()) if call.attrs is not None else []


def lost_attributes(call: Call, declared: Collection[str]) -> Iterator[tuple[str, object]]:
    """The attributes of an operator's *call*, with their values, that are not *declared* and mean something."""
    assert isinstance(call.op, Op)
    reference = reference_attributes(call.op.kernel)
    for attr, value in _attributes(call):
        if attr not in declared and attr in reference and not _means_nothing(call, attr, value):
            yield attr, value


def _check(call: Call, kernel: str, declared: Mapping[str, object], table: KernelTable) -> None:
    assert isinstance(call.op, Op)
    for attr, value in lost_attributes(call, declared):
        reference = reference_attributes(call.op.kernel)
        raise CompileError(
            f"the kernel {kernel!r} of table {table.name!r} does not declare {attr}, which is {value!r} of "
            f"{place_of(call)}: declare it as a keyword (*, {attr}: {reference[attr]}) or take **attributes, or refuse "
            "other values in a constraint"
        )


def _means_nothing(call: Call, attr: str, value: object) -> bool:
    """Whether a kernel that knows nothing of the attribute does as if it had the value."""
    default = _default(call, attr)
    if default is MISSING:
        return False
    if _same(value, default):
        return True
    types = [t for arg in call.args for t in tensor_types(arg.checked_type)]
    if isinstance(value, str) and {t.dtype for t in (*types, *tensor_types(call.checked_type))} == {value}:
        return True
    if attr == "out_layout":
        return value in (getattr(call.attrs, "data_layout", None), getattr(call.attrs, "layout", None))
    if attr == "axis" and types and isinstance(value, int) and isinstance(default, int):
        count = axis_count(call)
        return value % count == default % count
    return False


def _default(call: Call, attr: str) -> object:
    if not is_dataclass(call.attrs):
        return MISSING
    return next((f.default for f in fields(call.attrs) if f.name == attr), MISSING)


def _same(value: object, default: object) -> bool:
    """Whether both are equal, or lists of one number: ``(0, 0, 0, 0)`` is the padding ``(0, 0)``."""
    if value == default:
        return True
    if isinstance(value, str) or not isinstance(value, Sequence) or not isinstance(default, Sequence):
        return False
    return bool(value) and bool(default) and all(item == default[0] for item in (*value, *default))


def asked_attributes(pattern: DFPattern) -> dict[str, object]:
    """The attributes that *pattern* asks for: a match has no others."""
    found: dict[str, object] = {}
    for part in graph_of(pattern).parts:
        if isinstance(part, AttrPattern):
            found.update(part.attrs)
    return found
