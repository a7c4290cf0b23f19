"""The modules that programs may import by name (``prelude.rly``, ``nat.rly``, ``gradient.rly``), as text beside this.

Each is read and typed once in a process: its functions never change, so all programs share them. Source:
``IRModule.import_from_std``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from byoc.errors import ParseError, UserError
from byoc.ir.module import IRModule
from byoc.ir.registry import register_func
from byoc.ir.types import GlobalTypeVar
from byoc.relay.text import parse
from byoc.runtime.files.whole_file import read_text

FOLDER = Path(__file__).parent


@functools.cache
def std_module(name: str) -> IRModule:
    """The typed module *name*, such as ``prelude.rly``. Raises UserError with the known names."""
    known = sorted(path.name for path in FOLDER.glob("*.rly"))
    if name not in known:
        raise UserError(f"there is no standard module {name!r}; known: {', '.join(known)}")
    return parse((FOLDER / name).read_text(encoding="utf-8"), name)


@register_func("relay.std.type_header")
def type_header(file_name: str, name: str) -> GlobalTypeVar:
    """The name of the data type *name* of a standard module. Raises UserError for an unknown module."""
    return std_module(file_name).get_global_type_var(name)


@register_func("relay.ir.import_from_std")
def import_from_std(mod: IRModule, file_name: str) -> None:
    """Add the types and functions of a standard module to *mod*, unless it has them already.

    Raises UserError for an unknown module. Source: ``IRModule.import_from_std``.
    """
    for header, data in std_module(file_name).type_definitions.items():
        if header not in mod:
            mod.add_type(header, data)
    for var, func in std_module(file_name).functions.items():
        if var not in mod:
            mod[var] = func


@register_func("relay.ir.import_file")
def import_file(mod: IRModule, path: str) -> None:
    """Add the types and functions of the text in a file to *mod*. Source: ``IRModule.import_``.

    Raises ParseError for what is not Relay's text, and for a file that cannot be read.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(f"{path}: cannot be read as Relay's text ({error})") from error
    mod.update(parse(text, str(path)))


@register_func("tvm.relay.std_path")
def std_path() -> str:
    """The folder of the standard modules. Source: ``relay.std_path``."""
    return str(FOLDER)
