"""How the functions of regions are named: legal as C identifiers, unique, the same in every run.

Source: ``NameMangleExtFuncs`` and ``SanitizeName`` of Relay.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.traverse import post_order, typed_rewrite

_PREFIX = "tvmgen"


def sanitize_name(name: str) -> str:
    """*name* with everything but ASCII letters and digits as an underscore.

    >>> sanitize_name("acme-npu:0")
    'acme_npu_0'
    """
    return re.sub(r"[^0-9A-Za-z]", "_", name)


def mangled_name(mod_name: str | None, name: str) -> str:
    """The global name of a region's function: ``tvmgen_<mod_name>_<name>``.

    >>> mangled_name("default", "acme_main_0")
    'tvmgen_default_acme_main_0'
    """
    return sanitize_name("_".join(part for part in (_PREFIX, mod_name, name) if part))


def mangle_compiler_functions(mod: IRModule, mod_name: str | None) -> IRModule:
    """*mod* with each function that has ``Compiler`` renamed, and its calls with it."""
    names: dict[GlobalVar, GlobalVar] = {}
    taken = {var.name_hint for var, func in mod.functions.items() if not _is_compilers(func)}
    for var, func in mod.functions.items():
        if _is_compilers(func):
            names[var] = new = GlobalVar(unique_name(mangled_name(mod_name, var.name_hint), taken), var.span)
            new._checked_type = func._checked_type
            taken.add(new.name_hint)
    if not names:
        return mod
    renamed = IRModule(None, mod.type_definitions, mod.attrs)
    for var, func in mod.functions.items():
        new_var = names.get(var, var)
        new_func = rename_globals(func, names)
        if var in names and isinstance(new_func, Function):
            new_func = new_func.with_attr("global_symbol", new_var.name_hint)
        renamed[new_var] = new_func
    return renamed


def _is_compilers(func: RelayExpr) -> bool:
    return isinstance(func, Function) and "Compiler" in func.attrs


def unique_name(name: str, taken: Container[str]) -> str:
    """*name*, followed by as many ``_a`` as it takes to be none of *taken*."""
    while name in taken:
        name += "_a"
    return name


def rename_globals(root: RelayExpr, names: Mapping[GlobalVar, GlobalVar]) -> RelayExpr:
    """*root* with global names replaced; itself where it has none of them."""
    if not any(type(node) is GlobalVar and node in names for node in post_order(root)):
        return root
    return typed_rewrite(root, lambda before, after: names.get(before, after) if type(before) is GlobalVar else after)
