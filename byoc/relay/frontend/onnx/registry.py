"""The table of converters: for each ONNX operator, one function for each version of the operator that changed it.

A converter registered ``since=n`` serves models of opset *n* and later, until the next one registered. Which modules
have the converters of an operator says ``converters.txt``; they are imported when it is asked for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from byoc.errors import RegistryError
from byoc.ir.expr import RelayExpr
from byoc.ir.registry import read_homes

if TYPE_CHECKING:
    from byoc.relay.frontend.onnx.node import OnnxNode

Converter = Callable[["OnnxNode"], "RelayExpr | Sequence[RelayExpr] | None"]  # None: as ONNX defines it
# (domain, operator) -> (first opset, converter), in ascending order
CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators
NCHWC = "com.microsoft.nchwc"  # of those on the layout of one machine, which it writes with all its optimizations on
MACHINE_LEARNING = "ai.onnx.ml"  # ONNX's domain of classical models
C = TypeVar("C", bound=Converter)


def converter(*op_types: str, since: int = 1, domain: str = "") -> Callable[[C], C]:
    """Register a function of an :class:`OnnxNode` as the converter of operators from opset *since* on.

    Raises RegistryError when one is registered for that operator and version already.
    """

    def register(function: C) -> C:
        for op_type in op_types:
            if not function.__module__.startswith("byoc."):
                load_converters(domain, op_type)  # the error names this one where a converter is there already
            versions = CONVERTERS.setdefault((domain, op_type), [])
            if any(first == since for first, _ in versions):
                raise RegistryError(f"two converters are registered for {op_type} since opset {since}")
            versions.append((since, function))
            versions.sort(key=lambda entry: entry[0])
        return function

    return register


@functools.cache
def homes() -> Mapping[str, Sequence[str]]:
    """Operator (behind its domain and a colon, but for ONNX's own) to the modules that have converters of it."""
    package = __name__.rpartition(".")[0]
    return read_homes(Path(__file__).parent / "converters.txt", package)


def load_families() -> None:
    """Import every module that registers converters."""
    for module in dict.fromkeys(module for modules in homes().values() for module in modules):
        importlib.import_module(module)


@functools.cache
def load_converters(domain: str, op_type: str) -> None:
    """Import the modules that have converters of an operator, once."""
    for module in homes().get(f"{domain}:{op_type}" if domain else op_type, ()):
        importlib.import_module(module)


def find_converter(domain: str, op_type: str, opset: int) -> Converter | None:
    """The converter of the newest version not after *opset*, or None where the operator has none."""
    load_converters(domain, op_type)
    if (domain, op_type) not in CONVERTERS:
        load_families()  # the table may not know what is just being written
    found = None
    for since, function in CONVERTERS.get((domain, op_type), ()):
        if since <= opset:
            found = function
    return found
