"""Which global functions of a module name which others. Source: ``relay.analysis.CallGraph``."""

from __future__ import annotations

from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.traverse import children, post_order


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


class CallGraph:
    """How often the functions of *module* name each other. Source: ``tvm.relay.analysis.call_graph.CallGraph``."""

    def __init__(self, module: IRModule):
        self._module = module
        self._calls = GlobalCalls(module)

    @property
    def module(self) -> IRModule:
        """The module that was looked at."""
        return self._module

    def _named(self, var: GlobalVar | str) -> GlobalVar:
        return self._module.get_global_var(var) if isinstance(var, str) else var

    def _uses(self, user: GlobalVar) -> dict[GlobalVar, int]:
        """How often *user* names each function: once a call, once where it is used as a value."""
        counts: dict[GlobalVar, int] = {}
        func = self._module[user]
        for node in post_order(func) if isinstance(func, Function) else ():
            for child in children(node):
                if isinstance(child, GlobalVar):
                    counts[child] = counts.get(child, 0) + 1
        return counts

    def ref_count(self, var: GlobalVar | str) -> int:
        """How often the functions of the module name *var*. Raises UserError for a name that is not there."""
        wanted = self._named(var)
        return sum(self._uses(user).get(wanted, 0) for user in self._calls.callees)

    def global_call_count(self, var: GlobalVar | str) -> int:
        """How often *var* names functions of the module. Raises UserError for a name that is not there."""
        return sum(self._uses(self._named(var)).values())

    def is_recursive(self, var: GlobalVar | str) -> bool:
        """True when *var* calls itself, at once or through others."""
        return self._named(var) in self._calls.recursive

    def print_var(self, var: GlobalVar | str) -> str:
        """*var*, how often it is named, and what it names, one line each."""
        wanted = self._named(var)
        lines = [f'Call graph node: "{wanted.name_hint}", #refs = {self.ref_count(wanted)}']
        for callee in self._uses(wanted):
            lines.append(f'  call site: "{callee.name_hint}", #refs = {self.ref_count(callee)}')
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return "CallGraph:\n" + "\n".join(self.print_var(var) for var in reversed(self._calls.callees_first))
