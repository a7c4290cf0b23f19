"""A module: functions by their global names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from byoc.errors import UserError
from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr
from byoc.ir.registry import get_global_func


class IRModule:
    """Functions by their global names, in the order in which they were added. Source: ``tvm.IRModule``.

    Passes do not change the module that they are given: they return another, which may share functions with it.
    """

    def __init__(
        self, functions: Mapping[GlobalVar | str, BaseFunc] | None = None, attrs: Mapping[str, object] | None = None
    ):
        self._functions: dict[GlobalVar, BaseFunc] = {}
        self._names: dict[str, GlobalVar] = {}
        self.attrs: dict[str, object] = dict(attrs or {})
        for var, func in (functions or {}).items():
            self[var] = func

    @property
    def functions(self) -> Mapping[GlobalVar, BaseFunc]:
        return self._functions

    def __getitem__(self, var: GlobalVar | str) -> BaseFunc:
        return self._functions[self.get_global_var(var) if isinstance(var, str) else self._known(var)]

    def __setitem__(self, var: GlobalVar | str, func: BaseFunc) -> None:
        if isinstance(var, str):
            var = self._names.get(var) or GlobalVar(var)
        known = self._names.setdefault(var.name_hint, var)
        if known is not var:
            raise UserError(f"the module has another function called {var.name_hint!r}; rename one of them")
        self._functions[var] = func

    def __delitem__(self, var: GlobalVar | str) -> None:
        var = self.get_global_var(var) if isinstance(var, str) else self._known(var)
        del self._functions[var]
        del self._names[var.name_hint]

    def __contains__(self, var: GlobalVar | str) -> bool:
        return var in self._names if isinstance(var, str) else var in self._functions

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def _known(self, var: GlobalVar) -> GlobalVar:
        if var not in self._functions:
            raise UserError(f"the module has no function {var.name_hint!r}; it has {', '.join(self._names)}")
        return var

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable called *name*. Raises UserError with the known names."""
        if name not in self._names:
            raise UserError(f"the module has no function {name!r}; it has {', '.join(self._names) or 'none'}")
        return self._names[name]

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions, in their order."""
        return list(self._functions)

    def update(self, other: IRModule | Mapping[GlobalVar, BaseFunc]) -> None:
        """Take over the functions of *other*; those of the same name are replaced."""
        functions = other.functions if isinstance(other, IRModule) else other
        for var, func in functions.items():
            self[self._names.get(var.name_hint, var)] = func

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Set one function. Source: ``IRModule.update_func``."""
        self[var] = func

    def shallow_copy(self) -> IRModule:
        """Another module with the same functions and attributes."""
        return IRModule(dict(self._functions), self.attrs)

    def with_attr(self, key: str, value: object) -> IRModule:
        """A copy with one attribute set."""
        return IRModule(dict(self._functions), {**self.attrs, key: value})

    @staticmethod
    def from_expr(expr: RelayExpr, functions: Mapping[GlobalVar, BaseFunc] | None = None) -> IRModule:
        """A module whose ``main`` is *expr*: a function as it is, anything else as a body over its free variables.

        Source: ``tvm.IRModule.from_expr``.
        """
        mod = IRModule(functions)
        main = expr if isinstance(expr, BaseFunc) else get_global_func("relay.ir.function_of")(expr)
        mod["main"] = main  # type: ignore[assignment]
        return mod

    def astext(self, show_meta_data: bool = True) -> str:
        """The module in Relay's text format. Source: ``IRModule.astext``."""
        return str(get_global_func("relay.ir.astext")(self, show_meta_data))

    def __str__(self) -> str:
        return self.astext(show_meta_data=False)
