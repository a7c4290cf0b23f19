"""The package ``tvm`` as ``byoc.compat.tvm`` offers it: Relay's users' names over byoc's own objects.

Its modules are found when first used. Source: ``tvm`` v0.18.
"""

from __future__ import annotations

import importlib

from byoc.compat.tvm.below import Missing
from byoc.compat.tvm_modules.devices import cpu, cuda, device, ext_dev, gpu, metal, opencl, vulkan
from byoc.compat.tvm_modules.error import TVMError
from byoc.compat.tvm_modules.ffi import get_global_func, register_func
from byoc.compat.tvm_modules.runtime import Object
from byoc.compat.tvm_modules.runtime.data_type import DataType
from byoc.ir.module import IRModule
from byoc.runtime.core.device import Device
from byoc.runtime.core.ndarray import NDArray

__version__ = "0.18.0"

_ALIASES = {"container": "tvm.ir.container"}

_SUBMODULES = (
    "arith",
    "autotvm",
    "contrib",
    "driver",
    "error",
    "instrument",
    "ir",
    "micro",
    "nd",
    "relay",
    "rpc",
    "runtime",
    "script",
    "support",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
    "_ffi",
)

__all__ = [
    "DataType",
    "Device",
    "IRModule",
    "NDArray",
    "Object",
    "TVMError",
    "__version__",
    "build",
    "cpu",
    "cuda",
    "device",
    "ext_dev",
    "get_global_func",
    "gpu",
    "lower",
    "metal",
    "opencl",
    "register_func",
    "vulkan",
]


build = Missing("tvm.build")
lower = Missing("tvm.lower")


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return importlib.import_module(f"tvm.{name}")
    if name in _ALIASES:
        return importlib.import_module(_ALIASES[name])
    raise AttributeError(f"tvm has no name {name!r} in byoc")
