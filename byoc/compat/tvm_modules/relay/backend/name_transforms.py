"""Names of C from names of models. Source: ``relay.backend.name_transforms``, ``runtime.name_transforms``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from byoc.errors import UserError

_BAD = re.compile(r"[^A-Za-z0-9_]")


def sanitize_name(name: str) -> str:
    """*name* with everything but letters, digits and ``_`` as ``_``. Raises UserError for an empty one."""
    return _BAD.sub("_", _given(name))


def to_c_function_style(original_name: str) -> str:
    """``TVMGenMyName`` for ``TVM_gen_my_name``. Raises UserError for a name without the prefix ``TVM``."""
    rest = _after_tvm(original_name, "Function")
    return "TVM" + "".join(part[:1].upper() + part[1:].lower() for part in rest.split("_"))


def to_c_variable_style(original_name: str) -> str:
    """The name in lower case. Raises UserError for a name that is empty or lacks the prefix ``TVM``."""
    return "tvm" + _after_tvm(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """The name in upper case. Raises UserError for a name that is empty or lacks the prefix ``TVM``."""
    return "TVM" + _after_tvm(original_name, "Constant").upper()


def prefix_name(names: str | Sequence[str]) -> str:
    """The name, or the names joined by ``_``, behind ``TVM_``. Raises UserError for an empty list, segment or name."""
    return "TVM_" + _joined(names)


def prefix_generated_name(names: str | Sequence[str]) -> str:
    """The names joined by ``_`` behind ``TVMGen_``. Raises UserError for an empty list or name."""
    return "TVMGen_" + _joined(names)


def mangle_module_name(mod_name: str | None) -> str:
    """``tvmgen_<name>``, or ``tvmgen`` without a name. Raises UserError for a name that is not in ASCII.

    Source: ``relay.backend.utils.mangle_module_name``.
    """
    if mod_name and not mod_name.isascii():
        raise UserError(f"the name of a module is in ASCII, got {mod_name!r}")
    return f"tvmgen_{mod_name}" if mod_name else "tvmgen"


def _given(name: str) -> str:
    if not name:
        raise UserError("Name is empty")
    return name


def _after_tvm(name: str, what: str) -> str:
    if not name:
        raise UserError(f"{what} name is empty")
    if not name.startswith("TVM"):
        raise UserError(f"{what} not TVM prefixed: {name!r} should start with TVM prefix")
    return name[3:]


def _joined(names: str | Sequence[str]) -> str:
    if isinstance(names, str):
        return _given(names)
    if not names:
        raise UserError("Name segments empty")
    if not all(names):
        raise UserError("Name segment is empty")
    return "_".join(names)
