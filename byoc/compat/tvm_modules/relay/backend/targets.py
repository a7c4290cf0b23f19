"""Which of the targets that a caller names is the host, and which byoc generates no code for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.compat.tvm_modules.emulated import is_host_kind
from byoc.compat.tvm_modules.target import HOST_KINDS, Target
from byoc.contract.registration import backend_names
from byoc.errors import UserError

OneTarget = str | Mapping[str, object] | Target
# one, several, or several by their devices
TargetLike = OneTarget | Mapping[object, OneTarget] | Sequence[OneTarget]


def all_targets(target: TargetLike | None) -> list[Target]:
    """The targets of a build: one, a list, or a mapping by devices; the current one, else llvm, where none is given."""
    given = target if target is not None else Target.current() or "llvm"
    several = list(given.values()) if isinstance(given, Mapping) and "kind" not in given else [given]
    if isinstance(given, (list, tuple)):
        several = list(given)
    return [Target(t) for t in (several or ["llvm"])]  # type: ignore[arg-type]


def host_target(target: TargetLike | None) -> Target:
    """The host among the targets of a build; an emulated environment may build further kinds as the host.

    Raises UserError for a target that byoc generates no code for.
    """
    targets = all_targets(target)
    for one in targets:
        if not _is_host(one) and one.kind.name not in backend_names():
            raise UserError(
                f"byoc generates no code for the target {one.kind.name!r}: build for llvm or c, and give the "
                "accelerator its share by PartitionGraph and a codegen relay.ext.<name>"
            )
    return next((t for t in targets if _is_host(t)), targets[0])


def _is_host(target: Target) -> bool:
    return target.kind.name in HOST_KINDS or is_host_kind(target.kind.name)
