"""Attributes of the normalizations."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.ir.attrs import Attrs


@dataclass(frozen=True)
class BatchNormAttrs(Attrs):
    """Attributes of ``nn.batch_norm``."""

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class InstanceNormAttrs(Attrs):
    """Attributes of ``nn.instance_norm``."""

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class LayerNormAttrs(Attrs):
    """Attributes of ``nn.layer_norm``."""

    axis: int = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class GroupNormAttrs(Attrs):
    """Attributes of ``nn.group_norm``."""

    num_groups: int
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class LRNAttrs(Attrs):
    """Attributes of ``nn.lrn``."""

    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 1e-4  # as in Relay's class; its function has 1e-5
    beta: float = 0.75


@dataclass(frozen=True)
class L2NormalizeAttrs(Attrs):
    """Attributes of ``nn.l2_normalize``; an empty axis is all axes."""

    eps: float
    axis: tuple[int, ...] = ()
