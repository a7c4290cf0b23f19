"""All cases that a backend takes, the most informative first."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Collection, Sequence

from byoc.contract.backend import Backend
from byoc.contract.support_table import registered_operators
from byoc.ir.op import OPS
from byoc.testing.cases.attributes import ATTRIBUTES, attribute_cases
from byoc.testing.cases.combined import COMBINED, combined_cases
from byoc.testing.cases.large import DEEP, LARGE, deep_cases, large_cases
from byoc.testing.cases.large_integers import large_integer_cases
from byoc.testing.cases.layouts import LAYOUT, layout_cases
from byoc.testing.cases.operators import DTYPE, EMPTY, EXCHANGED, FREE, SAMPLE, BackendAnswers, operator_cases
from byoc.testing.cases.patterns import PATTERN, PATTERN_SAMPLES, pattern_cases
from byoc.testing.cases.quantized import QUANTIZED, quantized_cases
from byoc.testing.cases.special import SPECIAL, special_cases
from byoc.testing.core.case import CONSTANT, LARGE_INTEGERS, Case

# kinds in the order in which they are tried: what models have first
KINDS = (
    *(SAMPLE, PATTERN, PATTERN_SAMPLES, QUANTIZED, LARGE, DEEP, COMBINED, CONSTANT, EXCHANGED, ATTRIBUTES, LAYOUT),
    *(SPECIAL, LARGE_INTEGERS, EMPTY, FREE, DTYPE),
)
MOST_REASONS = 3  # that are shown of an operator that is named and not taken
OF_PATTERNS = (PATTERN, PATTERN_SAMPLES, LARGE)


def all_cases(asked: BackendAnswers, seed: int, only: Sequence[str]) -> list[Case]:
    """Every case that *asked* takes, in the order in which they are tried: the first sample of each operator first."""
    found: list[Case] = []
    for op in registered_operators():
        if is_wanted(only, op.name) or not only or any(is_wanted(only, kind) for kind in KINDS):
            found += [*operator_cases(asked, op, seed), *large_integer_cases(asked, op, seed)]
    samples = [c for c in found if c.kind == SAMPLE]
    found += [*combined_cases(asked, found), *large_cases(asked, samples)]
    found += [*deep_cases(asked, samples), *attribute_cases(asked, samples), *special_cases(samples)]
    is_every = not only or any(is_wanted(only, kind) for kind in OF_PATTERNS)
    found += pattern_cases(asked, seed, lambda name: is_every or is_wanted(only, name))
    found += layout_cases(asked, seed, {c.operator for c in found})
    found += quantized_cases(asked, seed)
    _note_untried(asked, {c.operator for c in found}, only)
    wanted = [c for c in found if not only or is_wanted(only, c.operator) or is_wanted(only, c.kind)]
    seen: dict[tuple[str, str], int] = {}
    ranked = []
    for place, case in enumerate(wanted):
        turn = seen[case.operator, case.kind] = seen.get((case.operator, case.kind), -1) + 1
        ranked.append(((min(turn, 1), KINDS.index(case.kind), place), case))
    return [case for _, case in sorted(ranked, key=lambda r: r[0])]


def _note_untried(asked: BackendAnswers, tried: Collection[str], only: Sequence[str]) -> None:
    """Keep in ``asked.unmade`` the operators that the backend names as taken and takes no sample of, with why."""
    for name in claimed_operators(asked.backend):
        if name not in tried and (not only or is_wanted(only, name)):
            why = "; ".join(itertools.islice(asked.why_not.get(name, ()), MOST_REASONS)) or "it has no samples"
            asked.unmade.setdefault(name, f"it names this operator, and takes none of its samples: {why}")


def claimed_operators(backend: Backend) -> list[str]:
    """The operators that *backend* names as those that it takes: in its constraints, and by its kernels."""
    named = [name for condition in backend.constraints for name in condition.names]
    named += [name for name, _ in backend.named_operators()]
    return [name for name in dict.fromkeys(named) if name in OPS]


def is_wanted(only: Sequence[str], name: str) -> bool:
    """Whether one of the patterns *only* is *name*."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in only)
