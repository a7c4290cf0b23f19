"""Which global functions of a module name which others. Source: ``relay.analysis.CallGraph``."""

from __future__ import annotations

from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.traverse import post_order


class GlobalCalls:
    """The global functions that each function of *mod* names, in order; which are recursive, and callees first."""

    def __init__(self, mod: IRModule):
        self.callees: dict[GlobalVar, list[GlobalVar]] = {}
        for var, func in mod.functions.items():
            nodes = post_order(func) if isinstance(func, Function) else ()
            self.callees[var] = [n for n in nodes if isinstance(n, GlobalVar) and n in mod]
        self.callees_first: list[GlobalVar] = []
        self.recursive: set[GlobalVar] = set()
        self._walk()

    @property
    def entries(self) -> list[GlobalVar]:
        """The functions that no function names."""
        named = {callee for callees in self.callees.values() for callee in callees}
        return [var for var in self.callees if var not in named]

    def _walk(self) -> None:
        """Tarjan's strongly connected components ("Depth-first search and linear graph algorithms", 1972)."""
        index: dict[GlobalVar, int] = {}
        low: dict[GlobalVar, int] = {}
        group: list[GlobalVar] = []
        for root in self.callees:
            stack = [(root, iter(self.callees[root]))] if root not in index else []
            while stack:
                var, callees = stack[-1]
                if var not in index:
                    index[var] = low[var] = len(index)
                    group.append(var)
                callee = next((c for c in callees if c not in index or c in low), None)
                if callee is not None and callee not in index:
                    stack.append((callee, iter(self.callees[callee])))
                elif callee is not None:
                    low[var] = min(low[var], index[callee])
                else:
                    stack.pop()
                    if stack:
                        above = stack[-1][0]
                        low[above] = min(low[above], low[var])
                    if low[var] == index[var]:
                        self._close(var, group, low)

    def _close(self, var: GlobalVar, group: list[GlobalVar], low: dict[GlobalVar, int]) -> None:
        at = group.index(var)
        component = group[at:]
        del group[at:]
        for member in component:
            del low[member]
        if len(component) > 1 or var in self.callees[var]:
            self.recursive.update(component)
        self.callees_first.extend(reversed(component))
