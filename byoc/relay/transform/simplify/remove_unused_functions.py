"""RemoveUnusedFunctions: only what the entry functions reach stays.

Source: ``relay.transform.RemoveUnusedFunctions``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.relay.traverse import post_order


def reachable_functions(mod: IRModule, entries: Sequence[str] = ("main",)) -> list[GlobalVar]:
    """The functions that *entries* call, directly or not, with themselves, in the order of the module.

    Raises UserError for an entry that the module lacks.
    """
    reached: set[GlobalVar] = set()
    stack = [mod.get_global_var(name) for name in entries]
    while stack:
        var = stack.pop()
        if var in reached:
            continue
        reached.add(var)
        stack.extend(node for node in post_order(mod[var]) if isinstance(node, GlobalVar) and node in mod)
    return [var for var in mod if var in reached]


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> ModulePass:
    """The pass that drops the functions which no entry (``main`` by default) reaches."""
    entries = tuple(entry_functions or ("main",))

    def remove(mod: IRModule, ctx: object) -> IRModule:
        return IRModule({var: mod[var] for var in reachable_functions(mod, entries)}, mod.type_definitions, mod.attrs)

    return ModulePass(
        remove,
        PassInfo(
            "RemoveUnusedFunctions",
            1,
            ("InferType",),
            ends=(),
            law=Law("a function that nothing reaches has no part in the result"),
        ),
    )
