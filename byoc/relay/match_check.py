"""Checks of matches that look at more than the root of a match."""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import UserError, defined_at
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import Call


class MatchCheck:
    """A check that looks at a match as a whole, where a plain one is a function of the match's root."""

    def takes(self, composite: Call) -> bool:
        """Whether the match may become the call *composite*, which has types and stands in no graph."""
        raise NotImplementedError

    def __call__(self, root: RelayExpr) -> bool:
        raise UserError("this check looks at whole matches, not at their roots: give it to MergeComposite")


def truth(check: Callable[..., object], given: RelayExpr, what: str) -> bool:
    """What *check*, which is called *what* to users, says of *given*.

    Raises UserError for None, which a function gives that forgot to return.
    """
    said = check(given)
    if said is None:
        raise UserError(f"{what} returned None{defined_at(check)}, expected True or False: its return is missing")
    return bool(said)
