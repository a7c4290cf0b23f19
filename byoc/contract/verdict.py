"""Verdicts: why a backend takes a call or not, as data, and the constraints that they come from.

A constraint is a function of a call with a docstring that says what is supported; it returns None where the call
satisfies it, and else the value that it found. One table of constraints answers for a backend's operators, for its
composites, for the matches of its patterns, in its support table and in what its code generator may rely on.

Invariant: a verdict that is no has at least one reason when it comes from :func:`judge` or :func:`refuse`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from byoc.errors import CompileError, PartitionError, defined_at, vendors_failure, vendors_line
from byoc.ir.op import OPS, Op
from byoc.ir.span import span_names
from byoc.relay.expr import Call, Function
from byoc.relay.match_check import MatchCheck
from byoc.relay.traverse import dataflow_children, post_order

FAILED_CODE = "error"  # of the reason that a constraint raised, or returned what is none
EVERY = "*"  # as what a constraint is about: every call inside of what is judged


@dataclass(frozen=True)
class Reason:
    """Why a backend does not take a call: the constraint's code and text, and the value found.

    In a composite *at* is the operator inside that it is about, with its ONNX nodes; *pattern* is the row of a pattern
    table whose match was refused for it.
    """

    code: str
    text: str
    actual: str = ""
    at: str = ""
    pattern: str = ""

    def __str__(self) -> str:
        matched = f"{self.pattern} matched here but was refused: " if self.pattern else ""
        got = f", got {self.actual}" if self.actual else ""
        return f"{matched}{self.text}{got}{f' ({self.at})' if self.at else ''}"


def sentence_of(reasons: Iterable[Reason]) -> str:
    """*reasons* in one sentence: the name of a pattern once, and once what is said of several operators inside."""
    by_pattern: dict[str, dict[Reason, dict[str, None]]] = {}
    for reason in reasons:
        places = by_pattern.setdefault(reason.pattern, {}).setdefault(replace(reason, at="", pattern=""), {})
        if reason.at:
            places[reason.at] = None
    return "; ".join(
        str(replace(reason, at=" and ".join(places), pattern="" if k else pattern))
        for pattern, said in by_pattern.items()
        for k, (reason, places) in enumerate(said.items())
    )


@dataclass(frozen=True)
class Verdict:
    """Whether a backend takes a call, and if not, every reason; ``str()`` is the sentence for a report.

    *matches* are the reasons for which matches of patterns that cover the call were refused, which may be so although
    the call is taken alone.
    """

    accepted: bool
    operator: str
    nodes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    matches: tuple[Reason, ...] = ()

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def why(self) -> tuple[Reason, ...]:
        """All that speaks against the call: nothing where it is accepted."""
        return () if self.accepted else (*self.reasons, *self.matches)

    def __str__(self) -> str:
        where = f" (node {', '.join(self.nodes)})" if self.nodes else ""
        if self.accepted:
            return f"{self.operator}: accepted{where}"
        return f"{self.operator}: {sentence_of(self.why)}{where}"


@dataclass(frozen=True)
class Constraint:
    """A named condition. It is asked about a call as a whole; where it is *of* operators, about each call of these that
    the composite holds, or about the call itself.

    *of* may also be a function of an operator, true of those that it is about (``lambda op: op.traits.product is not
    None``). *machine*: the answer depends on the machine that byoc runs on. *names* are the operators and composites
    that it speaks of otherwise; a name that there is not is refused when the backend is used. *dtypes* are those that
    it names as taken.
    """

    code: str
    text: str
    check: Callable[[Call], object | None]
    of: tuple[str, ...] | Callable[[Op], bool] = ()
    machine: bool = False
    names: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def __call__(self, call: Call) -> Reason | None:
        """The first reason for a refusal, or None."""
        return next(iter(self.refusals(call)), None)

    def refusals(self, call: Call, inside: Sequence[Call] | None = None) -> tuple[Reason, ...]:
        """Every reason for a refusal: one for each call inside that does not satisfy it.

        *inside* are the :func:`calls_in` *call*, where they were found for other constraints.
        """
        found = []
        for inner in self._about(call, inside):
            actual = self.check(inner)
            if actual is not None:
                found.append((inner, actual))
        if not found:
            return ()
        made = next((actual for _, actual in found if isinstance(actual, Constraint)), None)
        if made is not None:
            raise PartitionError(
                f"it returned the constraint {made.code!r}, expected None or the value found: it makes a constraint, "
                "and is to be called where it is listed, as in constraints = (floats(32),)"
            )
        truth = next((actual for _, actual in found if isinstance(actual, bool)), None)
        if truth is not None:
            raise PartitionError(
                f"it returned {truth}, which does not say what was found: return None where the call is supported, and "
                "else the value that is not"
            )
        return tuple(
            Reason(self.code, self.text, str(actual), "" if inner is call else place_of(inner))
            for inner, actual in found
        )

    @property
    def asked_about(self) -> tuple[str, ...]:
        """The operators (or composites) that it is *of*, by name; of a function, all for which it is true."""
        if not callable(self.of):
            return self.of
        return tuple(sorted(name for name in OPS if self.of(OPS[name])))

    def _about(self, call: Call, inside: Sequence[Call] | None) -> Sequence[Call]:
        if callable(self.of):
            inside = calls_in(call) if inside is None else inside
            return [inner for inner in inside if isinstance(inner.op, Op) and self.of(inner.op)]
        if not self.of or callee_name(call) in self.of:
            return (call,)
        inside = calls_in(call) if inside is None else inside
        return inside if EVERY in self.of else [inner for inner in inside if callee_name(inner) in self.of]


def constraint(
    code: str, *, of: str | Sequence[str] | Callable[[Op], bool] = (), machine: bool = False
) -> Callable[[Callable[[Call], object | None]], Constraint]:
    """Make a constraint of a function whose docstring says what is supported. Raises PartitionError without one.

    *of* names the operators (or composites) that it is about, ``"*"`` for every one, also inside of composites; without
    it, it is asked about the call that is judged, an operator or a whole composite. A name that there is not is refused
    when the backend is used. Instead of names, a function of an operator says whether it is about that.
    """

    if not isinstance(code, str):
        name = getattr(code, "__name__", repr(code))
        raise PartitionError(
            f'@constraint was given {name} in the place of its code: write @constraint("dtype") above it'
        )

    def make(check: Callable[[Call], object | None]) -> Constraint:
        text = first_sentence(check)
        if not text:
            raise PartitionError(f"constraint {code!r} needs a docstring: it is the text that explains a refusal")
        about = of if callable(of) else (of,) if isinstance(of, str) else tuple(of)
        return Constraint(code, text, check, about, machine)

    return make


def as_constraint(given: object, place: str) -> Constraint:
    """*given*, which stands at *place*, as a constraint: a plain function with a docstring is one of its own name.

    Raises PartitionError for what is neither, and for a function without a docstring.
    """
    if isinstance(given, Constraint):
        return given
    if not callable(given) or isinstance(given, type):
        raise PartitionError(f"{place} is {given!r}, expected a function of a call, or what @constraint makes of one")
    check_is_of_call(given, place)
    name = str(getattr(given, "__name__", type(given).__name__))
    if not first_sentence(given):
        raise PartitionError(
            f'{place}: the function {name} has no docstring, which says what is supported (as "float32 only") and '
            "explains a refusal; write one"
        )
    return constraint(name)(given)


def check_is_of_call(given: Callable[..., object], place: str) -> None:
    """Raises PartitionError for what stands at *place* and makes a constraint, or does not take a call alone."""
    name = str(getattr(given, "__name__", type(given).__name__))
    try:
        parameters = inspect.signature(given)
    except (ValueError, TypeError):  # of what is not written in Python
        return
    returned = getattr(parameters.return_annotation, "__name__", parameters.return_annotation)
    if str(returned).rpartition(".")[2] == Constraint.__name__:
        asked = f"{name}({'...' if parameters.parameters else ''})"
        raise PartitionError(
            f"{place} is the function {name}, which makes a constraint, expected the constraint: write {asked}"
        )
    try:
        parameters.bind(None)
    except TypeError as error:
        raise PartitionError(
            f"{place} is the function {name}{parameters}, expected one that is called with a call alone, as in "
            f"def {name}(call); if it makes a constraint, write {name}(...)"
        ) from error


def first_sentence(function: object) -> str:
    """The first paragraph of a docstring on one line, without its full stop; empty where there is none."""
    text = (getattr(function, "__doc__", None) or "").strip().partition("\n\n")[0]
    return " ".join(text.split()).rstrip(".")


def callee_name(call: Call) -> str:
    """The operator's name; for a call of a composite function the composite's name."""
    if isinstance(call.op, Op):
        return call.op.name
    if isinstance(call.op, Function):
        return str(call.op.attrs.get("Composite", "function"))
    return type(call.op).__name__


def calls_in(call: Call) -> list[Call]:
    """The calls inside the function that *call* calls, or *call* itself where it calls no function."""
    if not isinstance(call.op, Function):
        return [call]
    return [n for n in post_order(call.op.body, dataflow_children) if isinstance(n, Call)]


def operator_in(call: Call, name: str) -> Call:
    """The first call of the operator *name* in *call*, an operator's or a composite's. Raises CompileError without."""
    for inner in calls_in(call):
        if callee_name(inner) == name:
            return inner
    raise CompileError(f"{place_of(call)} holds no {name}")


def place_of(call: Call) -> str:
    """What a reason calls an operator inside of a composite: ``nn.conv2d, node Conv_12``."""
    nodes = span_names(call.span)
    return callee_name(call) + (f", node {', '.join(nodes)}" if nodes else "")


def judge(call: Call, constraints: Iterable[Constraint]) -> Verdict:
    """The verdict of *constraints* on *call*: accepted when every one is satisfied, else with the reasons of all.

    A constraint that raises counts as no, for the reason ``error``.
    """
    reasons: list[Reason] = []
    inside = calls_in(call)
    for condition in constraints:
        try:
            reasons += condition.refusals(call, inside)
        except BaseException as error:  # one mistake of a vendor must not hide what the other ones say
            text = f"the constraint {condition.code} ({condition.text}) failed when asked"
            reasons.append(Reason(FAILED_CODE, f"{text}: {vendors_line(vendors_failure(error))}"))
    return Verdict(not reasons, callee_name(call), span_names(call.span), tuple(reasons))


def refuse(call: Call, code: str, text: str, actual: str = "") -> Verdict:
    """A refusal for one reason."""
    return Verdict(False, callee_name(call), span_names(call.span), (Reason(code, text, actual),))


def accept(call: Call) -> Verdict:
    """An acceptance."""
    return Verdict(True, callee_name(call), span_names(call.span))


def asked(supports: Callable[[Call], object], call: Call, backend: str) -> Verdict:
    """What ``supports`` of *backend* says of *call*; a truth value counts as a verdict, as Relay's predicates give.

    A text is the reason of a refusal, as a constraint gives it. None, which a method gives that forgot to return, and
    whatever else is no answer are refusals for the reason ``error``, with the method's line.
    """
    said = supports(call)
    if isinstance(said, Verdict):
        return said
    if isinstance(said, str):
        return refuse(call, "predicate", said or f"{backend} does not take it")
    if not isinstance(said, (int, np.bool_)):
        shown = "None" if said is None else f"a {type(said).__name__}"
        hook = f"backend {backend!r}: its supports(call) returned {shown}{defined_at(supports)}"
        expected = "expected a Verdict: return judge(call, self.constraints), accept(call) or refuse(call, code, text)"
        return refuse(call, FAILED_CODE, f"{hook}, {expected}")
    return accept(call) if said else refuse(call, "predicate", f"{backend} does not take it")


@dataclass(frozen=True)
class ConstraintCheck(MatchCheck):
    """The check of a pattern by *constraints*, which are asked about the composite that a match would become."""

    constraints: tuple[Constraint, ...]

    def takes(self, composite: Call) -> bool:
        return bool(judge(composite, self.constraints))

    def refusals(self, composite: Call) -> tuple[Reason, ...]:
        """Why it is refused; empty where it is not."""
        return judge(composite, self.constraints).reasons
