"""The calls that a plan is about, in order, and the names that they go by.

Invariant: a call is numbered by its place in post-order over the functions of the module, annotations not counted; the
number survives annotation and merging, so that decisions can be kept apart from expressions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from byoc.contract.verdict import callee_name
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import is_begin, is_end
from byoc.relay.transform.base.infer_type import is_optimizable
from byoc.relay.traverse import post_order

SHOWN = 8  # names in a message


def functions_of(mod: IRModule) -> Iterator[tuple[GlobalVar, Function]]:
    """The functions that may be partitioned, by name."""
    for var, func in mod.functions.items():
        if is_optimizable(func):
            yield var, func


def is_composite(call: Call) -> bool:
    """True for the call of a composite function."""
    return isinstance(call.op, Function) and "Composite" in call.op.attrs


def calls_of(func: Function) -> Iterator[Call]:
    """The calls of operators and of composites in *func*, in post-order, without annotations."""
    return calls_among(post_order(func, open_children))


def calls_among(nodes: Iterable[RelayExpr]) -> Iterator[Call]:
    """Those of *nodes* that are calls of operators or of composites, without annotations."""
    for node in nodes:
        if type(node) is Call and (type(node.op) is Op or is_composite(node)) and not (is_begin(node) or is_end(node)):
            yield node


def inner_calls(call: Call) -> list[Call]:
    """The calls of operators that *call* stands for: itself, or those in the composite's body."""
    if not isinstance(call.op, Function):
        return [call]
    return [n for n in post_order(call.op.body) if isinstance(n, Call) and isinstance(n.op, Op)]


def names_of(call: Call) -> set[str]:
    """The names by which a user may mean *call*: operators, ONNX nodes, the composite."""
    names = {callee_name(call), *span_names(call.span)}
    for inner in inner_calls(call):
        names.add(callee_name(inner))
        names.update(span_names(inner.span))
    return names


def means(text: str, name: str) -> bool:
    """Whether *text*, as a user writes it, means *name*: the name itself, or ``*`` for any text in it.

    >>> means("conv*0]", "conv_[0]"), means("a?", "ab"), means("x*[1]", "x*[1]")
    (True, False, True)
    """
    if "*" not in text:
        return text == name
    return text == name or re.fullmatch(".*".join(map(re.escape, text.split("*"))), name, re.DOTALL) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """The names in *known* that a user may have meant by *name*, for a message: those made from it for nodes that
    share it, else the most alike, else the first.
    """
    names = sorted(known)
    made = [n for n in names if re.fullmatch(rf"{re.escape(name)}(_\d+)+", n)]
    return ", ".join(made[:SHOWN] or difflib.get_close_matches(name, names, n=5) or names[:SHOWN]) or "none"


def known_names(mod: IRModule) -> set[str]:
    """Every name by which a user may mean a call of *mod*."""
    return {name for _, func in functions_of(mod) for call in calls_of(func) for name in names_of(call)}
