"""What a backend supports, found by asking it: the documentation of a backend, made of its own constraints.

Each operator of the registry is tried on its own samples, on variables and, where a backend refuses these, with all
arguments but the first as constants, as weights are; where it refuses all, in other floating-point types. A verdict
that is no for constraints of the machine alone (:class:`Constraint`, ``machine``) counts as a yes, so that a table is
the same everywhere; the constraint is listed. What is taken stands first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

import byoc.relay.op
import byoc.relay.qnn.op  # noqa: F401 - both register their operators
from byoc.base.counted import counted
from byoc.contract.backend import Backend, Check
from byoc.contract.checks import pattern_entries
from byoc.contract.verdict import FAILED_CODE, Constraint, ConstraintCheck, Reason, Verdict, asked, first_sentence
from byoc.errors import vendors_line
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.dataflow_pattern.pattern_graph import pattern_post_order
from byoc.relay.dataflow_pattern.patterns import CallPattern, DFPattern, ExprPattern
from byoc.relay.expr import Call, Constant, Function, Tuple, Var
from byoc.runtime.core.ndarray import NDArray, dtype_name

TAKEN, PARTLY, REFUSED, UNTRIED = "yes", "partly", "no", "untried"
OWN, OTHERS = "float32", ("float16", "float64")  # the type of samples, and those that are tried where it is refused
_ORDER = {TAKEN: 0, PARTLY: 0, REFUSED: 1, UNTRIED: 2}  # in which operators are listed, by name among equals


@dataclass(frozen=True)
class OperatorRow:
    """An operator: how many of its samples are taken, how many of these with constant weights alone, and the distinct
    reasons for which others are not; *dtype* is the type that they were given where none is taken in its own.
    """

    name: str
    taken: int
    samples: int
    reasons: tuple[Reason, ...] = ()
    constant: int = 0
    dtype: str = ""

    @property
    def state(self) -> str:
        """``yes``, ``partly``, ``no``, or ``untried`` where it has no samples."""
        if not self.samples:
            return UNTRIED
        return TAKEN if self.taken == self.samples else PARTLY if self.taken else REFUSED


@dataclass(frozen=True)
class PatternRow:
    """A pattern: the composite's name, its operators, and what is checked."""

    name: str
    operators: tuple[str, ...]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class ConstraintRow:
    """A constraint: its code, its text, the operators that it is about (none: the call as a whole), and whether it asks
    the machine.
    """

    code: str
    text: str
    of: tuple[str, ...]
    machine: bool


@dataclass(frozen=True)
class SupportTable:
    """What a backend supports. ``str()`` is text; see also :meth:`markdown` and :meth:`to_json`."""

    backend: str
    about: str
    constraints: tuple[ConstraintRow, ...]
    patterns: tuple[PatternRow, ...]
    operators: tuple[OperatorRow, ...]
    deviations: tuple[str, ...] = ()

    @property
    def supported(self) -> tuple[str, ...]:
        """The operators of which at least one sample is taken."""
        return tuple(row.name for row in self.operators if row.taken)

    def to_json(self) -> dict[str, object]:
        """The table as values that ``json.dumps`` takes."""
        return asdict(self)

    def failures(self) -> Mapping[str, int]:
        """What failed when it was asked, a constraint or the verdict itself, with the number of operators."""
        return Counter(t for r in self.operators for t in {x.text for x in r.reasons if x.code == FAILED_CODE})

    def counted(self) -> str:
        """How many operators are in which state, as a sentence."""
        count = {s: sum(r.state == s for r in self.operators) for s in (TAKEN, PARTLY, REFUSED, UNTRIED)}
        return (
            f"{self.backend} takes {count[TAKEN]} operators on all their samples and {count[PARTLY]} on some, "
            f"refuses {count[REFUSED]}; {count[UNTRIED]} have no samples"
        )

    def __str__(self) -> str:
        lines = [f"{self.backend}: {self.about}", "", "constraints:"]
        lines += [f"  [{r.code}] {_row_text(r)}" for r in self.constraints] or ["  none are declared"]
        if self.deviations:
            lines += ["", "deviations:", *(f"  {text}" for text in self.deviations)]
        if self.patterns:
            lines += ["", "patterns:"]
            lines += [
                f"  {r.name}: {', '.join(r.operators)}{'; ' + '; '.join(r.checks) if r.checks else ''}"
                for r in self.patterns
            ]
        width = max((len(r.name) for r in self.operators), default=0)
        lines += ["", f"operators: {self.counted()}"]
        lines += [f"  failed when asked: {text} ({counted(n, 'operator')})" for text, n in self.failures().items()]
        states = max((len(_state(r)) for r in self.operators), default=0)
        lines += [f"  {r.name:{width}}  {_state(r):{states}}  {_reasons(r)}".rstrip() for r in self.operators]
        return "\n".join(lines)

    def markdown(self) -> str:
        """The table as a page."""
        lines = [
            f"# What the backend `{self.backend}` supports",
            "",
            f"{self.about}.",
            "",
            f"Made by `byoc targets {self.backend} --markdown`; do not edit. {self.counted()}.",
            "",
            "## Constraints",
            "",
            "| code | what is supported | asked about |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{r.code}` | {_cell(r.text)}{' (as the machine has it)' if r.machine else ''} | {_about(r)} |"
            for r in self.constraints
        ]
        if self.deviations:
            lines += [
                "",
                "## Deviations",
                "",
                "What it computes otherwise than ONNX, to which `byoc certify` holds it:",
                "",
            ]
            lines += [f"- {text}" for text in self.deviations]
        if self.patterns:
            lines += ["", "## Patterns", "", "| composite | operators | checked |", "|---|---|---|"]
            lines += [
                f"| `{r.name}` | {', '.join(f'`{o}`' for o in r.operators)} | {_cell('; '.join(r.checks)) or '-'} |"
                for r in self.patterns
            ]
        lines += ["", "## Operators", "", "| operator | samples taken | refused for |", "|---|---|---|"]
        lines += [f"| `{r.name}` | {_state(r)} | {_cell(_reasons(r))} |" for r in self.operators]
        return "\n".join(lines) + "\n"


def support_table(backend: Backend) -> SupportTable:
    """What *backend* supports, asked of it operator by operator."""
    text = first_sentence(type(backend)).replace("``", "`")
    return SupportTable(
        backend.name,
        text or "no description",
        tuple(ConstraintRow(c.code, c.text, c.asked_about, c.machine) for c in backend.constraints),
        tuple(
            PatternRow(e.name, tuple(_operators(e.pattern)), tuple(_checks(e.check))) for e in pattern_entries(backend)
        ),
        tuple(sorted((_row(backend, op) for op in registered_operators()), key=lambda row: _ORDER[row.state])),
        tuple(map(str, backend.deviations)),
    )


def supported_ops(backend: Backend) -> tuple[str, ...]:
    """The operators of which *backend* takes at least one sample."""
    return tuple(op.name for op in registered_operators() if any(a.taken for a in _answers(backend, op)))


def registered_operators() -> Iterator[Op]:
    """The operators of the registry that are whole, by name; those of a test (``test_…``) are left out."""
    return (OPS[n] for n in sorted(OPS) if OPS[n].rel is not None and not n.startswith("test_"))


def sample_call(op: Op, sample: Sample, constant_weights: bool = False) -> Call:
    """A typed call of *op* on parameters like the arrays of *sample*; with *constant_weights* its arguments behind the
    first are constants.
    """
    params: list[Var] = []
    args: list[RelayExpr] = []
    for k, item in enumerate(sample.arrays()):
        arrays = [np.asarray(a) for a in (item if isinstance(item, list) else [item])]
        group: list[RelayExpr] = []
        for j, array in enumerate(arrays):
            if constant_weights and k > 0:
                group.append(Constant(NDArray(array)))
            else:
                params.append(Var(f"x{k}_{j}", TensorType(array.shape, dtype_name(array.dtype))))
                group.append(params[-1])
        args.append(Tuple(group) if isinstance(item, list) else group[0])
    call = Call(op, args, op.attrs_type(**sample.attrs) if op.attrs_type else None)
    infer_expr(Function(params, call))
    return call


@dataclass(frozen=True)
class _Answer:
    """Whether a sample is taken on a machine that has everything, whether with constant weights alone, and why not."""

    taken: bool
    constant: bool
    reasons: tuple[Reason, ...]
    dtype: str = ""


def _answers(backend: Backend, op: Op) -> Sequence[_Answer]:
    """What is said of each sample; where none is taken in its own type, in the first other one in which one is."""
    own = [_answer(backend, op, sample) for sample in op.samples]
    if any(a.taken or any(r.actual == op.name or r.code == FAILED_CODE for r in a.reasons) for a in own):
        return own
    for dtype in OTHERS:
        samples = [in_dtype(s, dtype) for s in op.samples if s.dtype == OWN]
        answers = [replace(_answer(backend, op, sample), dtype=dtype) for sample in samples]
        if any(a.taken for a in answers):
            return answers
    return own


def _answer(backend: Backend, op: Op, sample: Sample) -> _Answer:
    taken, reasons = _asked(backend, op, sample, constant_weights=False)
    constant = False
    if not taken and len(sample.inputs) > 1:
        constant, reasons = _asked(backend, op, sample, constant_weights=True)
    return _Answer(taken or constant, constant, reasons)


def in_dtype(sample: Sample, dtype: str) -> Sample:
    """*sample* with what is float32 in it of *dtype*."""

    def cast(item: object) -> object:
        if isinstance(item, list):
            return [cast(part) for part in item]
        return item.astype(dtype) if isinstance(item, np.ndarray) and item.dtype == OWN else item

    attrs = {name: dtype if value == OWN else value for name, value in sample.attrs.items()}
    return replace(sample, inputs=[cast(item) for item in sample.inputs], attrs=attrs, dtype=dtype)


def _asked(backend: Backend, op: Op, sample: Sample, constant_weights: bool) -> tuple[bool, tuple[Reason, ...]]:
    """Whether *sample* is taken, and the reasons against it, those of the machine left out."""
    machine = {c.code for c in backend.constraints if c.machine}
    try:
        verdict = asked(backend.supports, sample_call(op, sample, constant_weights), backend.name)
    except Exception as error:  # whatever a vendor's code raises
        verdict = Verdict(False, op.name, (), (Reason(FAILED_CODE, vendors_line(error)),))
    taken = bool(verdict) or (bool(verdict.reasons) and all(r.code in machine for r in verdict.reasons))
    return taken, tuple(r for r in verdict.reasons if r.code not in machine)


def _row(backend: Backend, op: Op) -> OperatorRow:
    answers = _answers(backend, op)
    reasons = [reason for answer in answers if not answer.taken for reason in answer.reasons]
    constant = sum(answer.constant for answer in answers)
    taken = sum(answer.taken for answer in answers)
    dtype = answers[0].dtype if answers else ""
    return OperatorRow(op.name, taken, len(answers), tuple(dict.fromkeys(reasons)), constant, dtype)


def _operators(pattern: DFPattern) -> Sequence[str]:
    """The operators that a pattern names, in post-order."""
    parts = [p.op for p in pattern_post_order(pattern) if isinstance(p, CallPattern)]
    return list(dict.fromkeys(p.expr.name for p in parts if isinstance(p, ExprPattern) and isinstance(p.expr, Op)))


def _checks(check: Check | Sequence[Constraint] | None) -> Sequence[str]:
    if check is None:
        return ()
    if isinstance(check, ConstraintCheck):
        return [f"{f'{_about_names(c.asked_about)}: ' if c.of else ''}{c.text}" for c in check.constraints]
    return (first_sentence(check) or "a check without a docstring",)


def _row_text(row: ConstraintRow) -> str:
    about = f" (of {_about_names(row.of)})" if row.of else ""
    return f"{row.text}{about}{' (as the machine has it)' if row.machine else ''}"


def _about_names(of: Sequence[str]) -> str:
    return ", ".join("every operator" if name == "*" else name for name in of)


def _about(row: ConstraintRow) -> str:
    return "the call" if not row.of else _about_names(row.of)


def _state(row: OperatorRow) -> str:
    """How much of an operator is taken: ``8 of 8, 3 of these with constant weights``."""
    if row.state == UNTRIED:
        return row.state
    of = "" if row.constant == row.taken else f"{row.constant} of these "
    dtype = f" in {row.dtype}" if row.dtype else ""
    return f"{row.taken} of {row.samples}{dtype}{f', {of}with constant weights' if row.constant else ''}"


def _reasons(row: OperatorRow) -> str:
    by_code: dict[str, list[str]] = {}
    for reason in row.reasons:
        by_code.setdefault(reason.code, []).append(reason.actual)
    return "; ".join(
        code + (f" ({', '.join(dict.fromkeys(a for a in actual if a))})" if any(actual) else "")
        for code, actual in by_code.items()
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
