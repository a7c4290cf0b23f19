"""What a compiled model needs to run: arrays, modules, executors, numpy kernels, the artefact. No compiler.

``byoc.runtime.load("m.byoc")`` loads a saved model; calling it runs it.
"""

from byoc.runtime.device import Device, cpu, device
from byoc.runtime.errors import (
    ArtifactError,
    ByocError,
    DeviceError,
    IndexOutsideError,
    InputError,
    InternalError,
    KernelError,
    RunTimeoutError,
    UnavailableError,
    UserError,
)
from byoc.runtime.executors.graph import Graph
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.library import Library, load, load_module_tree
from byoc.runtime.metadata import MetadataModule
from byoc.runtime.module import Module, register_module_loader
from byoc.runtime.ndarray import NDArray, array, empty
from byoc.runtime.signature import Signature, TensorSpec

__all__ = [
    "ArtifactError",
    "ByocError",
    "Device",
    "DeviceError",
    "Graph",
    "GraphExecutor",
    "IndexOutsideError",
    "InputError",
    "InternalError",
    "KernelError",
    "Library",
    "MetadataModule",
    "Module",
    "NDArray",
    "RunTimeoutError",
    "Signature",
    "TensorSpec",
    "UnavailableError",
    "UserError",
    "array",
    "cpu",
    "device",
    "empty",
    "load",
    "load_module_tree",
    "register_module_loader",
]
