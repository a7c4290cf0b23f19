"""Pattern tables by target. Source: ``relay.op.contrib.register``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.registry import Registry, caller_location
from byoc.relay.expr import Call

# rows of (composite name, pattern) or (composite name, pattern, check)
PatternTable = Sequence[tuple[object, ...]]
PATTERN_TABLES: Registry[Callable[[], PatternTable]] = Registry("pattern table")
# target -> what it says of a call (anything with a truth value, such as a Verdict); beside the ``target.X`` attributes
TARGET_PREDICATES: Registry[Callable[[Call], object]] = Registry("target predicate")


def register_pattern_table(
    compiler: str, table: Callable[[], PatternTable] | None = None
) -> Callable[[], PatternTable] | Callable[[Callable[[], PatternTable]], Callable[[], PatternTable]]:
    """Register a function that gives the pattern table of *compiler*, as a call or as a decorator.

    Raises RegistryError when *compiler* has one already.
    """
    where = caller_location()

    def register(make: Callable[[], PatternTable]) -> Callable[[], PatternTable]:
        PATTERN_TABLES.register(compiler, make, where=where)
        return make

    return register(table) if table is not None else register


def get_pattern_table(compiler: str) -> PatternTable | None:
    """The pattern table of *compiler*, made anew, or None where it has none."""
    make = PATTERN_TABLES.get(compiler)
    return make() if make is not None else None
