"""What the user keeps away from targets: operators and ONNX nodes by name, for all targets or for some.

Every name must mean something in the model: one that does not is an error that offers the nearest.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import PartitionError

Exclude = Sequence[str] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Exclusions:
    """The excluded names for each target."""

    by_target: Mapping[str, frozenset[str]]
    names: tuple[str, ...]

    @staticmethod
    def of(exclude: Exclude, targets: Sequence[str]) -> Exclusions:
        """Names for every target, or names by target. Raises PartitionError for a target that is not asked."""
        if isinstance(exclude, str):
            raise PartitionError(f"exclude is a list of names, or names by target; write exclude=[{exclude!r}]")
        if not isinstance(exclude, Mapping):
            return Exclusions({target: frozenset(exclude) for target in targets}, tuple(exclude))
        for target in exclude:
            if target not in targets:
                asked = ", ".join(targets) or "none"
                raise PartitionError(f"exclude names the target {target!r}, which is not asked for; asked: {asked}")
        names = tuple(name for listed in exclude.values() for name in listed)
        return Exclusions({target: frozenset(exclude.get(target, ())) for target in targets}, names)

    def covers(self, target: str, names: Collection[str]) -> bool:
        """True when one of *names* is kept away from *target*."""
        return not self.by_target[target].isdisjoint(names)

    def check(self, known: Collection[str]) -> None:
        """Raises PartitionError with the nearest names for an exclusion that is not among *known*."""
        for name in self.names:
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=5) or sorted(known)[:8]
                raise PartitionError(
                    f"exclude: no operator or ONNX node of the model is called {name!r}; the nearest: {', '.join(near)}"
                )
