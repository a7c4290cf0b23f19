"""What a compiled model needs to run: arrays, modules, executors, numpy kernels, the artefact. No compiler.

``byoc.runtime.load("m.byoc")`` loads a saved model; calling it runs it. Modules of rooms that users
know as this package's (``byoc.runtime.ndarray``) are imported here as such.
"""

if __name__ != "byoc.runtime":  # a second copy of every class below it
    raise ImportError(
        f"{__name__} is byoc.runtime, found by a search path that holds byoc's checkout: import byoc.runtime instead"
    )

from byoc.runtime.core import errors as errors
from byoc.runtime.core import ndarray as ndarray
from byoc.runtime.core import signature as signature
from byoc.runtime.core.errors import (
    ArtifactError,
    ByocError,
    ContractError,
    DeviceError,
    DeviceMemoryError,
    DeviceTimeoutError,
    IndexOutsideError,
    InputError,
    InternalError,
    KernelError,
    RunTimeoutError,
    UnavailableError,
    UserError,
)
from byoc.runtime.core.ndarray import NDArray, array, empty
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.device import Device, cpu, device, register_device_kind
from byoc.runtime.devices.device_api import DeviceAPI, DeviceMemory, DeviceProperties, DeviceStream, StreamEvent
from byoc.runtime.devices.levels import HardwareLevel
from byoc.runtime.devices.registry import device_api, register_device_api
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.graph.graph import Graph
from byoc.runtime.library import Library
from byoc.runtime.loading import load
from byoc.runtime.module_tree import load_module_tree
from byoc.runtime.modules import metadata as metadata
from byoc.runtime.modules import module as module
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module, register_module_loader
from byoc.runtime.modules.saving import opened, sealed
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.region.checks import fill_outputs
from byoc.runtime.region.known_outputs import known_outputs

__all__ = [
    "ArtifactError",
    "ByocError",
    "ContractError",
    "Device",
    "DeviceAPI",
    "DeviceError",
    "DeviceMemory",
    "DeviceMemoryError",
    "DeviceProperties",
    "DeviceStream",
    "DeviceTimeoutError",
    "Graph",
    "GraphExecutor",
    "HardwareLevel",
    "IndexOutsideError",
    "InputError",
    "InternalError",
    "KernelError",
    "Library",
    "MetadataModule",
    "Module",
    "NDArray",
    "RunProfile",
    "RunTimeoutError",
    "Signature",
    "StreamEvent",
    "TensorSpec",
    "UnavailableError",
    "UserError",
    "array",
    "cpu",
    "device",
    "device_api",
    "empty",
    "fill_outputs",
    "known_outputs",
    "load",
    "load_module_tree",
    "opened",
    "register_device_api",
    "register_device_kind",
    "register_module_loader",
    "sealed",
]
