"""Environments that a user asked to have emulated: what a vendor's library and device would answer, by byoc's engines.

Nothing here answers unasked: an environment is entered by ``byoc.compat.tvm.emulate`` and left again. While it is, its
requirements count as met (``tvm.testing.requires_cuda``), targets of its kinds are built as host code, and its global
functions are registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.codegen.json.backend import JsonBackend
from byoc.relay.expr import Call, Function
from byoc.runtime.modules.module import Module

THIS = __name__
THAT = "byoc.compat.tvm_modules.relay.vendor_passes"


@dataclass(frozen=True)
class Environment:
    """One such environment; *functions* are the global functions by name, as ``module:attribute``."""

    requirements: frozenset[str] = frozenset()
    host_kinds: frozenset[str] = frozenset()
    functions: Mapping[str, str] = field(default_factory=dict)


# by the name of the library
ENVIRONMENTS: dict[str, Environment] = {
    "ethos-n": Environment(
        functions={
            "relay.ext.ethos-n": f"{THIS}:compile_region",
            "relay.ethos-n.api.version": f"{THIS}:ethosn_version",
            **{
                f"relay.ethos-n.support.{name}": f"{THIS}:is_supported"
                for name in (
                    "addition",
                    "avg_pool2d",
                    "concatenate",
                    "conv2d",
                    "conv2d_transpose",
                    "depth_to_space",
                    "fc",
                    "leaky_relu",
                    "max_pool2d",
                    "mean",
                    "reinterpret_quantize",
                    "relu",
                    "requantize",
                    "reshape",
                    "resize",
                    "sigmoid",
                    "split",
                    "tanh",
                )
            },
            **{
                f"relay.backend.contrib.ethos-n.{name}": f"{THAT}:no_change"
                for name in (
                    "ConvertEquivalents",
                    "ConvertQnnAddToDepthwise",
                    "ConvertQnnAddToReinterpretQuantize",
                    "ConvertQnnMultiplyToDepthwise",
                    "ConvertQnnMultiplyToReinterpretQuantize",
                )
            },
            "relay.backend.contrib.ethos-n.InlineNonComputeIntensivePartitions": f"{THAT}:inline_light_regions",
        },
    ),
    "tensorrt": Environment(
        requirements=frozenset(["cuda"]),
        host_kinds=frozenset(["cuda"]),
        functions={
            "relay.ext.tensorrt": f"{THIS}:compile_region",
            "relay.ext.tensorrt.is_runtime_enabled": f"{THIS}:is_runtime_enabled",
            "relay.ext.tensorrt.get_version": f"{THIS}:tensorrt_version",
        },
    ),
}
_ENTERED: list[str] = []


def enter(name: str) -> None:
    """Let environment *name* answer."""
    _ENTERED.append(name)


def leave(name: str) -> None:
    """Let environment *name* answer no more."""
    _ENTERED.remove(name)


def entered() -> tuple[str, ...]:
    """The environments that answer now."""
    return tuple(_ENTERED)


def meets(requirement: str) -> bool:
    """Whether an environment that answers meets a requirement of tests, such as ``cuda``."""
    return any(requirement in ENVIRONMENTS[name].requirements for name in _ENTERED)


def is_host_kind(kind: str) -> bool:
    """Whether targets of *kind* are built as host code by an environment that answers."""
    return any(kind in ENVIRONMENTS[name].host_kinds for name in _ENTERED)


def compile_region(function: Function) -> Module:
    """A region of an emulated library: a JSON graph over the numpy kernels, of any dtype and with unknown shapes.

    Raises CompileError for a region without ``global_symbol``.
    """
    return JsonBackend().compile(function, {})


def is_runtime_enabled() -> bool:
    """The runtime of an emulated library is here."""
    return True


def tensorrt_version() -> tuple[int, int, int]:
    """The version of TensorRT whose operators TVM's integration knows: 8.5.1."""
    return (8, 5, 1)


def ethosn_version() -> str:
    """The version of the Ethos-N driver stack that TVM's integration is written for."""
    return "3.2.0"


def is_supported(call: Call) -> bool:
    """What the integration's own checks let through is taken: no support library knows the limits of a chip here."""
    return isinstance(call, Call)
