"""The configuration of a compilation: its targets, its host, and the device of what nothing else says.

Source: ``tvm.target.CompilationConfig`` and ``tvm.target.make_compilation_config``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from byoc.errors import UserError
from byoc.ir.passes.transform import PassContext, register_config_option
from byoc.ir.target import Target
from byoc.ir.target_kind import CPU
from byoc.ir.virtual_device import INVALID_DEVICE_TYPE, VirtualDevice

FALLBACK_DEVICE_TYPE = "relay.fallback_device_type"
DEFAULT_HOST = "llvm"

register_config_option(FALLBACK_DEVICE_TYPE, int)

OneTarget = str | Mapping[str, object] | Target
Targets = OneTarget | Sequence[OneTarget] | Mapping[object, OneTarget]


@dataclass(frozen=True)
class CompilationConfig:
    """*primitive_targets* generate code for operators, each with *host_target* as its host.

    Values live on *default_primitive_virtual_device* where nothing says otherwise; shapes and control flow are on
    *host_virtual_device*.
    """

    primitive_targets: list[Target]
    host_target: Target
    default_primitive_virtual_device: VirtualDevice
    host_virtual_device: VirtualDevice
    optional_homogeneous_target: Target | None = None
    _canonical: dict[VirtualDevice, VirtualDevice] = field(default_factory=dict, compare=False, repr=False)

    def find_primitive_target_for_device(self, device_type: int) -> Target:
        """The first target for devices of that type that is no external compiler.

        Raises UserError where there is none. Source: ``FindPrimitiveTargetForDeviceOrFail``.
        """
        for target in self.primitive_targets:
            if target.get_target_device_type() == device_type and not target.is_external_codegen:
                return target
        known = ", ".join(map(str, self.primitive_targets))
        raise UserError(f"no target is given for devices of type {device_type}; given are: {known}")

    def canonical_virtual_device(self, device: VirtualDevice) -> VirtualDevice:
        """*device* with the target that it leaves open, as one object for all equal ones.

        Raises UserError where no target is given for it. Source: ``CanonicalVirtualDevice``.
        """
        if device.target is None and device.device_type_int != INVALID_DEVICE_TYPE:
            target = self.find_primitive_target_for_device(device.device_type_int)
            parts = (device.device_type_int, device.virtual_device_id, target, device.memory_scope)
            device = VirtualDevice.of_type(*parts)
        return self._canonical.setdefault(device, device)


def _listed(target: Targets) -> list[Target]:
    if _is_by_device(target):
        return [Target(each) for each in target.values()]
    if isinstance(target, (list, tuple)):
        return [Target(each) for each in target]
    return [Target(target)]  # type: ignore[arg-type]  # a mapping of which kind, _is_by_device has said


def _is_by_device(target: Targets) -> TypeGuard[Mapping[object, OneTarget]]:
    return isinstance(target, Mapping) and "kind" not in target


def _host_of(targets: Sequence[Target], given: OneTarget | None) -> Target:
    """The host: as given, as a target has it, the first target for CPUs, or the default."""
    if given is not None:
        return Target(given)
    for target in targets:
        if target.host is not None:
            return target.host
    for target in targets:
        if target.get_target_device_type() == CPU and not target.is_external_codegen:
            return target
    return Target(DEFAULT_HOST)


def _default_device_type(ctxt: PassContext | None, targets: Sequence[Target]) -> int:
    """The type of device of what nothing constrains: the pass option, the only one that there is, or the CPU."""
    fallback = ctxt.config.get(FALLBACK_DEVICE_TYPE) if ctxt is not None else None
    if fallback is not None:
        if not isinstance(fallback, int) or fallback <= 0:
            raise UserError(f"{FALLBACK_DEVICE_TYPE} is a device type, a positive number, got {fallback!r}")
        return fallback
    types = list(dict.fromkeys(t.get_target_device_type() for t in targets if not t.is_external_codegen))
    return types[0] if len(types) == 1 else CPU


def make_compilation_config(
    ctxt: PassContext | None, target: Targets, target_host: OneTarget | None = None
) -> CompilationConfig:
    """The configuration for one target, several, or a mapping from devices to them, under the options of *ctxt*.

    Raises UserError for no target, or where none is for the default device.
    """
    targets = _listed(target)
    if not targets:
        raise UserError("a compilation needs at least one target")
    host = _host_of(targets, target_host)
    bare_host = Target(host)
    bare_host.host = None
    targets = [each.with_host(bare_host) for each in targets]
    device_type = _default_device_type(ctxt, targets)
    if all(t.is_external_codegen or t.get_target_device_type() != device_type for t in targets) and device_type == CPU:
        targets.append(bare_host.with_host(bare_host))  # what no target takes is the host's
    config = CompilationConfig(
        targets,
        bare_host,
        VirtualDevice.of_type(device_type, 0),
        VirtualDevice.of_type(bare_host.get_target_device_type(), 0, bare_host),
        targets[0] if len(targets) == 1 else None,
    )
    default = config.canonical_virtual_device(config.default_primitive_virtual_device)
    object.__setattr__(config, "default_primitive_virtual_device", default)
    return config
