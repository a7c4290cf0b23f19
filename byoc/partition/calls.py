"""The calls that a plan is about, in order, the names that they go by, and what was decided of each.

Invariant: a call is numbered by its place in post-order over the functions of the module, annotations not counted; the
number survives annotation and merging, so that decisions can be kept apart from expressions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from byoc.contract.verdict import Verdict, callee_name
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay.analysis.contents import kept_with
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import BEGIN, END
from byoc.relay.transform.base.infer_type import is_optimizable
from byoc.relay.traverse import post_order

SHOWN = 8  # names in a message
MARKS = (BEGIN, END)


def functions_of(mod: IRModule) -> Iterator[tuple[GlobalVar, Function]]:
    """The functions that may be partitioned, by name."""
    for var, func in mod.functions.items():
        if is_optimizable(func):
            yield var, func


def is_composite(call: Call) -> bool:
    """True for the call of a composite function."""
    return isinstance(call.op, Function) and "Composite" in call.op.attrs


def calls_of(func: Function) -> tuple[Call, ...]:
    """The calls of operators and of composites in *func*, in post-order, without annotations; kept with it."""
    return kept_with(func, _calls)


def _calls(func: Function) -> tuple[Call, ...]:
    return tuple(calls_among(post_order(func, open_children)))


def calls_among(nodes: Iterable[RelayExpr]) -> Iterator[Call]:
    """Those of *nodes* that are calls of operators or of composites, without annotations."""
    for node in nodes:
        if type(node) is not Call:
            continue
        if node.op not in MARKS if type(node.op) is Op else is_composite(node):
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


@dataclass(frozen=True)
class Alternative:
    """Another way to run an operator, alone or as part of a composite: its target, its name and its seconds."""

    target: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Decision:
    """Where one call goes (None is the host), and what each target that was asked said.

    *precision* is that of the product, the host's or a region's, where another than the model's was asked for, and
    *precision_reason* why it is not that one. Where regions were planned and not merged, *region* is the number of the
    call's own; where costs were asked, *seconds* is the call's by its cost model, *source* says where that number is
    from, and *alternatives* what else could have run it. Where places were scored, *chosen* is the place, *detail*
    every row of the score. Where the call is of a composite, *inside* names the operators of its body, each once.
    """

    operator: str
    nodes: tuple[str, ...]
    target: str | None
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    precision: str = ""
    precision_reason: str = ""
    region: int | None = None
    seconds: float | None = None
    source: str = ""
    alternatives: tuple[Alternative, ...] = ()
    chosen: str = ""
    detail: str = ""
    inside: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a user may mean it: the operator or composite, its ONNX nodes, the operators inside."""
        return (self.operator, *self.nodes, *self.inside)

    @property
    def codes(self) -> tuple[str, ...]:
        """Why the call is on the host, as codes of reasons, by target; empty where it is not."""
        if self.target is not None:
            return ()
        return tuple(f"{t}:{r.code}" for t, v in self.verdicts for r in v.why) or ("no_target",)

    @property
    def place(self) -> str:
        """``c/bf16``, ``c/f32: why``, ``opencl/fp16``: where it is computed; empty where no precision was asked for."""
        if not self.precision:
            return ""
        why = f": {self.precision_reason}" if self.precision_reason else ""
        return f"place {self.target or 'c'}/{self.precision}{why}"
