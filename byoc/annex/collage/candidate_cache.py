"""Functions of compilers by their structure: each gets one global name, and its cost is measured once.

Source: Collage's ``CandidateFunctionCache`` and ``OutlineCompilerFunctions``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from byoc.annex.collage.sub_graph import COMPILER
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call
from byoc.relay.structure.structural import structural_equal, structural_hash
from byoc.relay.traverse import keep_type, post_order, typed_rewrite

_PREFIX = "collage"
_NO_COMPILER = "tvm"


@dataclass
class CachedFunction:
    """A function with its global name; ``cost`` (seconds) is None until it was estimated."""

    function: Function
    global_symbol: GlobalVar
    cost: float | None = None


class CandidateFunctionCache:
    """Entries by the structure of functions; names are ``collage_<compiler>_<label>``, made unique by a number."""

    def __init__(self, taken: IRModule | None = None) -> None:
        self._entries: dict[int, list[CachedFunction]] = {}
        self._taken = {var.name_hint for var in taken.functions} if taken is not None else set()

    def entry(self, label: str, function: Function) -> CachedFunction:
        """What is known of *function*; *label* is part of its name when it is met first."""
        same_hash = self._entries.setdefault(structural_hash(function), [])
        for known in same_hash:
            if structural_equal(known.function, function):
                return known
        made = CachedFunction(function, self._fresh_name(str(function.attrs.get(COMPILER, _NO_COMPILER)), label))
        made.global_symbol._checked_type = function._checked_type
        same_hash.append(made)
        return made

    def _fresh_name(self, compiler: str, label: str) -> GlobalVar:
        base = re.sub(r"[^0-9A-Za-z]", "_", "_".join(part for part in (_PREFIX, compiler, label) if part))
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return GlobalVar(name)


def outline_compiler_functions(mod: IRModule, cache: CandidateFunctionCache) -> IRModule:
    """*mod* where called functions with the attribute ``Compiler`` are global, under the names of *cache*."""
    result = IRModule(attrs=mod.attrs)
    outlined: dict[str, tuple[GlobalVar, Function]] = {}

    def globally(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        function = after.op if isinstance(after, Call) else None
        if not isinstance(function, Function) or COMPILER not in function.attrs:
            return after
        var = cache.entry("", function).global_symbol
        outlined.setdefault(var.name_hint, (var, function.with_attr("global_symbol", var.name_hint)))
        return keep_type(before, Call(var, as_call(after).args, span=after.span))

    for var, func in mod.functions.items():
        if isinstance(func, Function) and any(map(_calls_compiler, post_order(func))):
            result[var] = typed_rewrite(func, globally)
        else:
            result[var] = func
    for var, function in outlined.values():
        result[var] = function
    return result


def _calls_compiler(expr: RelayExpr) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Function) and COMPILER in expr.op.attrs
