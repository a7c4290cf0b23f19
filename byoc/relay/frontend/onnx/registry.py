"""The table of converters: for each ONNX operator, one function for each version of the operator that changed it.

A converter registered ``since=n`` serves models of opset *n* and later, until the next one registered. The families of
converters are imported one after the other, when an operator is asked for that those before do not have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from byoc.errors import RegistryError
from byoc.ir.expr import RelayExpr

if TYPE_CHECKING:
    from byoc.relay.frontend.onnx.node import OnnxNode

Converter = Callable[["OnnxNode"], "RelayExpr | Sequence[RelayExpr] | None"]  # None: as ONNX defines it
# (domain, operator) -> (first opset, converter), in ascending order
CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators
NCHWC = "com.microsoft.nchwc"  # of those on the layout of one machine, which it writes with all its optimizations on
MACHINE_LEARNING = "ai.onnx.ml"  # ONNX's domain of classical models
FAMILIES = ("converters", "control", "media", "quantized", "strings", "microsoft", "ml")  # the most frequent first
C = TypeVar("C", bound=Converter)


def converter(*op_types: str, since: int = 1, domain: str = "") -> Callable[[C], C]:
    """Register a function of an :class:`OnnxNode` as the converter of operators from opset *since* on.

    Raises RegistryError when one is registered for that operator and version already.
    """

    def register(function: C) -> C:
        if not function.__module__.startswith("byoc."):
            load_families()  # so that it is this one which is told of a converter that is there already
        for op_type in op_types:
            versions = CONVERTERS.setdefault((domain, op_type), [])
            if any(first == since for first, _ in versions):
                raise RegistryError(f"two converters are registered for {op_type} since opset {since}")
            versions.append((since, function))
            versions.sort(key=lambda entry: entry[0])
        return function

    return register


def load_families(until: tuple[str, str] | None = None) -> None:
    """Import the families that register converters: all, or as far as the one of the domain and operator *until*."""
    for family in FAMILIES:
        if until in CONVERTERS:
            return
        importlib.import_module(f"{__package__}.{family}")


def find_converter(domain: str, op_type: str, opset: int) -> Converter | None:
    """The converter of the newest version not after *opset*, or None where the operator has none."""
    load_families(until=(domain, op_type))
    found = None
    for since, function in CONVERTERS.get((domain, op_type), ()):
        if since <= opset:
            found = function
    return found
