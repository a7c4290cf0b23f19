"""A module: functions by their global names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, overload

from byoc.errors import UserError
from byoc.ir.expr import BaseFunc, Constructor, GlobalVar, RelayExpr, TypeData, number_constructors
from byoc.ir.registry import get_global_func
from byoc.ir.types import GlobalTypeVar, Type

Functions = Mapping[GlobalVar, BaseFunc] | Mapping[str, BaseFunc] | Mapping[GlobalVar | str, BaseFunc]

K = TypeVar("K")
V = TypeVar("V")


class _Items(dict[K, V]):
    """A mapping whose items are a list, which code written for Relay may index. Source: ``tvm.ir.Map``."""

    def items(self) -> list[tuple[K, V]]:  # type: ignore[override]
        return list(super().items())


class IRModule:
    """Functions by their global names, in the order in which they were added. Source: ``tvm.IRModule``.

    Passes do not change the module that they are given: they return another, which may share functions with it.
    """

    def __init__(
        self,
        functions: Functions | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
        attrs: Mapping[str, object] | None = None,
    ):
        self._functions: dict[GlobalVar, BaseFunc] = _Items()
        self._names: dict[str, GlobalVar] = {}
        self._types: dict[GlobalTypeVar, TypeData] = _Items()
        self.attrs: dict[str, object] = dict(attrs or {})
        for header, data in (type_definitions or {}).items():
            self.add_type(header, data)
        for var, func in (functions or {}).items():
            self[var] = func

    @property
    def functions(self) -> Mapping[GlobalVar, BaseFunc]:
        return self._functions

    @overload
    def __getitem__(self, var: GlobalVar | str) -> BaseFunc: ...
    @overload
    def __getitem__(self, var: GlobalTypeVar) -> TypeData: ...
    def __getitem__(self, var: GlobalVar | GlobalTypeVar | str) -> BaseFunc | TypeData:
        if isinstance(var, GlobalTypeVar):
            return self._types[self._known_type(var)]
        return self._functions[self.get_global_var(var) if isinstance(var, str) else self._known(var)]

    def __setitem__(self, var: GlobalVar | GlobalTypeVar | str, func: RelayExpr | Type) -> None:
        if isinstance(func, Type):
            self.add_type(var if isinstance(var, GlobalTypeVar) else GlobalTypeVar(str(var)), func)
            return
        if not isinstance(func, BaseFunc):
            func = self._function_of(func)
        name = var if isinstance(var, GlobalVar) else self._names.get(str(var)) or GlobalVar(str(var))
        if self._names.setdefault(name.name_hint, name) is not name:
            raise UserError(f"the module has another function called {name.name_hint!r}; rename one of them")
        self._functions[name] = func

    def _function_of(self, expr: RelayExpr) -> BaseFunc:
        """The function that *expr* means in this module: another's name, or a body over its free variables."""
        if isinstance(expr, GlobalVar):
            return self._functions[self._known(expr)]
        if not isinstance(expr, RelayExpr):
            raise UserError(f"a module holds functions and types, got {type(expr).__name__}: {expr!r}")
        function: BaseFunc = get_global_func("relay.ir.function_of")(expr)
        return function

    def __delitem__(self, var: GlobalVar | str) -> None:
        var = self.get_global_var(var) if isinstance(var, str) else self._known(var)
        del self._functions[var]
        del self._names[var.name_hint]

    def __contains__(self, var: object) -> bool:
        if isinstance(var, GlobalTypeVar):
            return var in self._types
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

    # algebraic data types -------------------------------------------------------------------------------------------

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """The functions with their names, sorted by these. Source: ``IRModule.functions_items``."""
        return sorted(self._functions.items(), key=lambda item: item[0].name_hint)

    @property
    def type_definitions(self) -> Mapping[GlobalTypeVar, TypeData]:
        """The data types by their names. Source: ``IRModule.type_definitions``."""
        return self._types

    def add_type(self, header: GlobalTypeVar, data: Type) -> None:
        """Add a data type, or set it again. Raises UserError for another type of the same name."""
        if not isinstance(data, TypeData):
            raise UserError(f"a module's type is a TypeData, got {type(data).__name__}")
        same = next((h for h in self._types if h.name_hint == header.name_hint), header)
        if same is not header:
            raise UserError(f"the module has another type called {header.name_hint!r}; rename one of them")
        number_constructors(data)
        self._types[header] = data

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The name of the data type called *name*. Raises UserError with the known names."""
        for header in self._types:
            if header.name_hint == name:
                return header
        known = ", ".join(h.name_hint for h in self._types) or "none"
        raise UserError(f"the module has no type {name!r}; it has {known}")

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """The names of all data types, in their order."""
        return list(self._types)

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """The data type called *name* and its constructors. Source: ``IRModule.get_type``."""
        header = self.get_global_type_var(name)
        return (header, *self._types[header].constructors)

    def get_constructor(self, tag: int) -> Constructor:
        """The constructor with that tag. Raises UserError where there is none. Source: ``IRModule.get_constructor``."""
        for data in self._types.values():
            for constructor in data.constructors:
                if constructor.tag == tag:
                    return constructor
        raise UserError(f"there is no constructor with tag {tag} in the module")

    def _known_type(self, header: GlobalTypeVar) -> GlobalTypeVar:
        if header not in self._types:
            raise UserError(f"the module has no type {header.name_hint!r}")
        return header

    # changes and copies ---------------------------------------------------------------------------------------------

    def update(self, other: IRModule | Mapping[GlobalVar, BaseFunc]) -> None:
        """Take over the functions of *other*; those of the same name are replaced."""
        functions = other.functions if isinstance(other, IRModule) else other
        if isinstance(other, IRModule):
            for header, data in other.type_definitions.items():
                self.add_type(header, data)
        for var, func in functions.items():
            self[self._names.get(var.name_hint, var)] = func

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Set one function. Source: ``IRModule.update_func``."""
        self[var] = func

    def _add(self, var: GlobalVar | GlobalTypeVar | str, val: RelayExpr | Type, update: bool = True) -> None:
        """Set a function or a type. Source: ``IRModule._add``."""
        self[var] = val

    def import_(self, file_to_import: str) -> None:
        """Add what a file of Relay's text defines. Source: ``IRModule.import_``."""
        get_global_func("relay.ir.import_file")(self, file_to_import)

    def import_from_std(self, file_to_import: str) -> None:
        """Add what a standard module defines, such as ``prelude.rly``. Source: ``IRModule.import_from_std``."""
        get_global_func("relay.ir.import_from_std")(self, file_to_import)

    def shallow_copy(self) -> IRModule:
        """Another module with the same functions and attributes."""
        return IRModule(dict(self._functions), self._types, self.attrs)

    def get_attr(self, attr_key: str) -> object | None:
        """The attribute *attr_key*, or None. Source: ``IRModule.get_attr``."""
        return self.attrs.get(attr_key)

    def without_attr(self, attr_key: str) -> IRModule:
        """A copy without one attribute. Source: ``IRModule.without_attr``."""
        return IRModule(dict(self._functions), self._types, {k: v for k, v in self.attrs.items() if k != attr_key})

    def same_as(self, other: object) -> bool:
        """True when *other* is this very module. Source: ``Object.same_as``."""
        return self is other

    def with_attr(self, key: str, value: object) -> IRModule:
        """A copy with one attribute set."""
        return IRModule(dict(self._functions), self._types, {**self.attrs, key: value})

    @staticmethod
    def from_expr(
        expr: RelayExpr,
        functions: Mapping[GlobalVar, BaseFunc] | None = None,
        type_defs: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> IRModule:
        """A module whose ``main`` is *expr*: a function as it is, anything else as a body over its free variables.

        A function that has a ``global_symbol`` is called by it. Source: ``tvm.IRModule.from_expr``.
        """
        mod = IRModule(functions, type_defs)
        main = expr if isinstance(expr, BaseFunc) else get_global_func("relay.ir.function_of")(expr)
        mod[str(getattr(main, "attrs", {}).get("global_symbol", "main"))] = main
        return mod

    def astext(self, show_meta_data: bool = True, annotate: Callable[[RelayExpr], str] | None = None) -> str:
        """The module in Relay's text format; *annotate* gives the text behind each node. Source: ``astext``."""
        return str(get_global_func("relay.ir.astext")(self, show_meta_data, annotate))

    def __str__(self) -> str:
        return str(get_global_func("relay.ir.pretty_print")(self))
