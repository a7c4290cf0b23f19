"""Names that have not been given yet. Source: ``tvm.ir.supply``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule

MODULE_NAME, DEFAULT_NAME = "mod_name", "tvmgen_default"


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


class NameSupply:
    """Gives each name once: one that is taken gets ``_1``, ``_2`` and so on. Source: ``tvm.ir.supply.NameSupply``."""

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._counts: dict[str, int] = {}

    def fresh_name(self, name: str, add_prefix: bool = True) -> str:
        """*name*, with the prefix unless *add_prefix* is false, made unique."""
        base = self._prefixed(name, add_prefix)
        if base not in self._counts:
            self._counts[base] = 0
            return base
        while True:
            self._counts[base] += 1
            candidate = f"{base}_{self._counts[base]}"
            if candidate not in self._counts:
                self._counts[candidate] = 0
                return candidate

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Take *name* without changing it; it will not be given again."""
        taken = self._prefixed(name, add_prefix)
        self._counts.setdefault(taken, 0)
        return taken

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """Whether *name* is taken."""
        return self._prefixed(name, add_prefix) in self._counts

    def _prefixed(self, name: str, add_prefix: bool) -> str:
        return _safe(f"{self.prefix}_{name}" if add_prefix and self.prefix else name)


class GlobalVarSupply:
    """Gives each global name one variable, and fresh ones. Source: ``tvm.ir.supply.GlobalVarSupply``.

    Names from modules get the first one's attribute ``mod_name`` as prefix, ``tvmgen_default`` where it has none.
    """

    def __init__(self, value: NameSupply | IRModule | Sequence[IRModule] | None = None):
        modules = [value] if isinstance(value, IRModule) else value if isinstance(value, (list, tuple)) else []
        prefix = str((modules[0].attrs or {}).get(MODULE_NAME, DEFAULT_NAME)) if modules else ""
        self.name_supply = value if isinstance(value, NameSupply) else NameSupply(prefix)
        self._vars: dict[str, GlobalVar] = {}
        for mod in modules:
            for var in mod.get_global_vars():
                self.reserve_global_var(var)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """A variable of a name that was not given before."""
        fresh = self.name_supply.fresh_name(name, add_prefix)
        return self._vars.setdefault(fresh, GlobalVar(fresh))

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The variable of that name, the same at every call."""
        taken = self.name_supply.reserve_name(name, add_prefix)
        return self._vars.setdefault(taken, GlobalVar(taken))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take the name of *global_var*. Source: ``GlobalVarSupply.reserve_global``."""
        self.reserve_global_var(global_var, allow_conflict)

    def reserve_global_var(self, var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take the name of *var*. Raises UserError when another variable has it, unless *allow_conflict*."""
        if self._vars.get(var.name_hint, var) is not var and not allow_conflict:
            raise UserError(f"the name {var.name_hint!r} belongs to another global variable")
        self.name_supply.reserve_name(var.name_hint, False)
        self._vars[var.name_hint] = var
