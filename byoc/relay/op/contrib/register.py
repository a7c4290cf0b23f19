"""Pattern tables by target. Source: ``relay.op.contrib.register``.

Installed backends (:mod:`byoc.ir.entry_points`) are imported when the passes first ask for their target; so are byoc's
own integrations, :data:`INTEGRATIONS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from byoc.errors import PartitionError
from byoc.ir import entry_points
from byoc.ir.registry import Registry, caller_location
from byoc.ir.target_kind import KNOWS_COMPILER
from byoc.relay.expr import Call
from byoc.runtime.core.entry_points import source_of

if TYPE_CHECKING:
    from byoc.relay.dataflow_pattern import DFPattern

# rows of (composite name, pattern) or (composite name, pattern, check); a check is a function, constraints, or None
PatternTable = Sequence[tuple[str, "DFPattern"] | tuple[str, "DFPattern", Any]]
TableMaker = TypeVar("TableMaker", bound=Callable[[], PatternTable])
PATTERN_TABLES: Registry[Callable[[], PatternTable]] = Registry("pattern table")
# target -> what it says of a call (anything with a truth value, such as a Verdict); beside the ``target.X`` attributes
TARGET_PREDICATES: Registry[Callable[[Call], object]] = Registry("target predicate")
KNOWS_COMPILER.append(PATTERN_TABLES.__contains__)
# target -> the module of byoc that brings it; a vendor's own table of that name replaces ours
INTEGRATIONS = {"bnns": "byoc.contrib.bnns", "dnnl": "byoc.contrib.onednn.relay"}


def load_target(name: str) -> None:
    """Import what brings target *name*, of byoc or an installed package, where there is one and it is not here yet.

    Raises PartitionError when the package cannot be imported, or brings something else.
    """
    if name in PATTERN_TABLES or name in TARGET_PREDICATES:
        return
    if name in INTEGRATIONS:
        importlib.import_module(INTEGRATIONS[name])
        return
    broken = entry_points.load(name)
    if broken:
        raise PartitionError(broken)


@overload
def register_pattern_table(
    compiler: str, table: None = None, override: bool = False
) -> Callable[[TableMaker], TableMaker]: ...
@overload
def register_pattern_table(
    compiler: str, table: Callable[[], PatternTable], override: bool = False
) -> Callable[[], PatternTable]: ...
def register_pattern_table(
    compiler: str, table: Callable[[], PatternTable] | None = None, override: bool = False
) -> object:
    """Register a function that gives the pattern table of *compiler*, as a call or as a decorator.

    A function that is defined again at the same place replaces itself, any function those of :data:`INTEGRATIONS`.
    Raises RegistryError when *compiler* has another table and *override* is false.
    """
    where = caller_location()

    def register(make: TableMaker) -> TableMaker:
        replaces = override or compiler in INTEGRATIONS
        PATTERN_TABLES.register(compiler, make, where=where, override=replaces, source=source_of(make))
        return make

    return register(table) if table is not None else register


def get_pattern_table(compiler: str) -> PatternTable | None:
    """The pattern table of *compiler*, made anew, or None where it has none."""
    load_target(compiler)
    make = PATTERN_TABLES.get(compiler)
    return make() if make is not None else None
