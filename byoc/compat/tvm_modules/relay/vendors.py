"""TVM's own integrations of vendors' libraries, of which byoc has the names: their files are mounted by who uses them.

Whether such a library is here is asked of the global functions that its runtime would have registered, so that tests
which need one are skipped. Source: ``relay.op.contrib`` of Apache TVM v0.18.
"""

from __future__ import annotations

import enum

from byoc.compat.tvm.below import Missing, NotHereError
from byoc.ir.registry import get_global_func


class MissingIntegration(Missing):
    """A name of an integration that is not mounted: it raises NotHereError when it is used."""

    def _error(self) -> NotHereError:
        return NotHereError(
            f"{self._name} belongs to TVM's own integration of a vendor's library, which byoc does not have: mount the "
            "folder of that integration with byoc.compat.tvm.mount(folder)"
        )


def _answer(name: str) -> bool:
    """What the global function *name* says, or no where nobody registered it."""
    ask = get_global_func(name, allow_missing=True)
    return bool(ask()) if ask is not None else False


def is_arm_compute_runtime_enabled() -> bool:
    """Whether a runtime of the Arm Compute Library is here. Source: ``contrib.is_arm_compute_runtime_enabled``."""
    return _answer("relay.op.is_arm_compute_runtime_enabled")


def is_tensorrt_compiler_enabled() -> bool:
    """Whether TensorRT's compiler is here: something answers whether its runtime is, whatever it answers.

    Source: ``contrib.is_tensorrt_compiler_enabled``.
    """
    return get_global_func("relay.ext.tensorrt.is_runtime_enabled", allow_missing=True) is not None


def is_tensorrt_runtime_enabled() -> bool:
    """Whether a runtime of TensorRT is here. Source: ``contrib.is_tensorrt_runtime_enabled``."""
    return _answer("relay.ext.tensorrt.is_runtime_enabled")


def is_clml_runtime_enabled() -> bool:
    """Whether a runtime of OpenCL ML is here. Source: ``contrib.is_clml_runtime_enabled``."""
    return _answer("relay.op.is_clml_runtime_enabled")


class Available(enum.Enum):
    """What is here of Ethos-N. Source: ``contrib.ethosn.Available``."""

    UNAVAILABLE = 0
    SW_ONLY = 1
    SW_AND_HW = 2


def ethosn_available() -> Available:
    """What is here of Ethos-N: nothing. Source: ``contrib.ethosn_available``."""
    return Available.UNAVAILABLE


# what the integrations define and TVM's package re-exports
NAMES = frozenset(
    [
        "Available",
        "ethosn_available",
        "is_arm_compute_runtime_enabled",
        "is_clml_runtime_enabled",
        "is_tensorrt_compiler_enabled",
        "is_tensorrt_runtime_enabled",
        "partition_for_arm_compute_lib",
        "partition_for_clml",
        "partition_for_cutlass",
        "partition_for_ethosn",
        "partition_for_mrvl",
        "partition_for_tensorrt",
    ]
)


def __getattr__(name: str) -> MissingIntegration:
    if name.startswith("__"):
        raise AttributeError(name)
    return MissingIntegration(f"tvm.relay.op.contrib.{name}")
