"""byoc: bring your own codegen. A model is cut across a host and accelerators; each vendor compiles its share.

Names are looked up when first used, so that ``import byoc.runtime`` imports nothing of the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from byoc import module_aliases

if TYPE_CHECKING:  # what __getattr__ finds
    from byoc import codegen, contract, contrib, driver, errors, ir, partition, relay, runtime, te
    from byoc.contract.backend import Backend
    from byoc.contract.limits import Limits
    from byoc.contract.registration import register_backend
    from byoc.driver.entry import compile
    from byoc.driver.export_c import export_c
    from byoc.driver.measure_plan import measure
    from byoc.driver.planning import plan
    from byoc.driver.quantization import Calibration
    from byoc.ir.module import IRModule
    from byoc.relay.frontend.onnx import import_onnx
    from byoc.runtime.library import load

__version__ = "0.1.0"

# public name -> the module that defines it
_PUBLIC = {
    "compile": "byoc.driver.entry",
    "plan": "byoc.driver.planning",
    "pipeline": "byoc.driver.pipeline",
    "measure": "byoc.driver.measure_plan",
    "to_networkx": "byoc.partition.show.networks",
    "Limits": "byoc.contract.limits",
    "Calibration": "byoc.driver.quantization",
    "export_c": "byoc.driver.export_c",
    "load": "byoc.runtime.library",
    "import_onnx": "byoc.relay.frontend.onnx",
    "Backend": "byoc.contract.backend",
    "register_backend": "byoc.contract.registration",
    "IRModule": "byoc.ir.module",
}
_SUBMODULES = ("codegen", "contract", "contrib", "driver", "errors", "ir", "partition", "relay", "runtime", "te")

module_aliases.install()

__all__ = ["__version__", *_PUBLIC, *_SUBMODULES]


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return importlib.import_module(f"byoc.{name}")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"byoc has no name {name!r}; it has {', '.join(sorted(__all__))}")
