"""The names of ``tvm.relay.op.contrib`` that are those of vendors' modules, found when they are asked for.

TVM's package re-exports what its integrations define. Here such a name comes from the mounted module that has it, else
from an integration of byoc's own, else it is one of :mod:`byoc.compat.tvm_modules.relay.vendors`.
"""

from __future__ import annotations

import importlib
import types

from byoc.compat.tvm.homes import VENDORS
from byoc.compat.tvm_modules.relay import vendors
from byoc.relay.op.contrib.register import INTEGRATIONS

PACKAGE = "tvm.relay.op.contrib"
REEXPORTED = (*INTEGRATIONS, *VENDORS)


def __getattr__(name: str) -> object:
    """*name* of the package: a vendor's module, or what such a module defines.

    Raises AttributeError for a name that no module has, with what kept a vendor's module from being imported.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    if name in REEXPORTED:
        return importlib.import_module(f"{PACKAGE}.{name}")
    broken: list[tuple[str, Exception]] = []
    for vendor in REEXPORTED:
        module = _imported(vendor, broken)
        if module is not None and name in vars(module):
            return vars(module)[name]
    if broken:
        vendor, error = broken[0]
        text = f"{vendor} cannot be imported ({type(error).__name__}: {error})"
        raise AttributeError(f"{PACKAGE} has no {name}, and its module {text}") from error
    if name in vendors.NAMES:
        return getattr(vendors, name)
    raise AttributeError(f"module {PACKAGE} has no attribute {name!r}")


def _imported(vendor: str, broken: list[tuple[str, Exception]]) -> types.ModuleType | None:
    """The module of *vendor*, None where byoc has its names alone; what fails in it is added to *broken*."""
    try:
        module = importlib.import_module(f"{PACKAGE}.{vendor}")
    except Exception as error:  # whatever a vendor's file raises; another may have the name
        broken.append((vendor, error))
        return None
    return module if module is not vendors else None
