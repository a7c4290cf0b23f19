"""What several targets say of a model's operators, each target on its own: how many it takes, alone or in a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from byoc.contract.backend import Backend
from byoc.contract.verdict import callee_name
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_of, functions_of
from byoc.partition.cut.decide import judged
from byoc.partition.cut.matches import matches_of
from byoc.relay.expr import Call
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.cut.merge_composite import CompositeRecord


@dataclass(frozen=True)
class Support:
    """What one target says of one operator of the model: how many calls it takes alone, how many more in patterns, and
    the codes for which it refuses the others.
    """

    target: str
    alone: int
    in_patterns: int
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MatrixRow:
    """An operator, how often the model has it, and what each target says."""

    operator: str
    count: int
    support: tuple[Support, ...]


@dataclass(frozen=True)
class SupportMatrix:
    """The operators of a model by name; ``str()`` is a table."""

    targets: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    def to_json(self) -> dict[str, object]:
        """The matrix as values that ``json.dumps`` takes."""
        return asdict(self)

    def taken(self, target: str) -> int:
        """How many calls *target* takes, alone or in patterns."""
        return sum(s.alone + s.in_patterns for row in self.rows for s in row.support if s.target == target)

    def __str__(self) -> str:
        total = sum(row.count for row in self.rows)
        table = [("operator", "count", *self.targets)]
        table += [(r.operator, str(r.count), *(_cell(r, s) for s in r.support)) for r in self.rows]
        table.append(("all", str(total), *(f"{self.taken(t)} of {total}" for t in self.targets)))
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _cell(row: MatrixRow, support: Support) -> str:
    taken = support.alone + support.in_patterns
    much = "yes" if taken == row.count else "no" if not taken else f"{taken} of {row.count}"
    pattern = f", {support.in_patterns} in patterns" if support.in_patterns else ""
    codes = f" [{', '.join(support.codes)}]" if support.codes else ""
    return f"{much}{pattern}{codes}"


def support_matrix(mod: IRModule, backends: Sequence[Backend]) -> SupportMatrix:
    """What each of *backends* says of the operators of *mod*, whoever else is asked."""
    mod = InferType()(mod)
    calls: dict[str, list[Call]] = {}
    for _, func in functions_of(mod):
        for call in calls_of(func):
            calls.setdefault(callee_name(call), []).append(call)
    covered = {backend.name: _in_patterns(mod, backend) for backend in backends}
    rows = [
        MatrixRow(name, len(found), tuple(_support(b, found, covered[b.name]) for b in backends))
        for name, found in sorted(calls.items())
    ]
    return SupportMatrix(tuple(b.name for b in backends), tuple(rows))


def _in_patterns(mod: IRModule, backend: Backend) -> set[Call]:
    """The calls that a match of a pattern covers, which the backend takes as a composite."""
    found: set[Call] = set()
    for var, func in functions_of(mod):
        calls = list(calls_of(func))
        for match in matches_of(var.name_hint, func, [backend], CompositeRecord()):
            if judged(backend, match.call):
                found.update(calls[k] for k in match.numbers)
    return found


def _support(backend: Backend, calls: Sequence[Call], covered: set[Call]) -> Support:
    verdicts = [judged(backend, call) for call in calls]
    in_patterns = sum(not v and c in covered for c, v in zip(calls, verdicts, strict=True))
    refused = [v for c, v in zip(calls, verdicts, strict=True) if not v and c not in covered]
    codes = dict.fromkeys(r.code for v in refused for r in v.reasons)
    return Support(backend.name, sum(map(bool, verdicts)), in_patterns, tuple(codes))
