"""Where a function, a class or a registration stands in the source, so that defining it again replaces it.

A notebook's cell that runs twice, and a module that is reloaded, register the same thing from the same place; the same
name from another place is a clash. A place is a file and the qualified name inside; what is typed into an interpreter
or a notebook has the module's name in the place of a file.
"""

from __future__ import annotations

import inspect
import os
import sys
from types import FrameType, FunctionType, MethodType


def source_of(value: object) -> str:
    """The place of a function or a class (of an object: of its class), as ``file:qualified name``."""
    if isinstance(value, MethodType):
        value = value.__func__
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    file, name = _file_of(kind.__module__), kind.__qualname__
    if isinstance(kind, FunctionType) and "<lambda>" in name and file != kind.__module__:
        name = f"{name}:{kind.__code__.co_firstlineno}"  # a name that all lambdas of a place share
    return f"{file}:{name}"


def definition_of(value: object) -> str:
    """``file:line`` where a class (of an object: its class) is defined; its :func:`source_of` where no file has it."""
    kind = value if isinstance(value, type) else type(value)
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return source_of(kind)


def caller_source(depth: int = 2) -> str:
    """The place of the code *depth* frames above this function."""
    frame: FrameType | None = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None and frame.f_back is not None else frame
    assert frame is not None  # CPython has frames
    return f"{_file_of(str(frame.f_globals.get('__name__', '')))}:{frame.f_code.co_name}"


def _file_of(module: str) -> str:
    """The file of *module*; its name where it has none, as what is typed into a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else module
