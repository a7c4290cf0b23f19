"""LayoutConfig: which convolutions ConvertLayout leaves as they are. Source: ``relay.transform.LayoutConfig``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class LayoutConfig:
    """Skips the convolutions whose numbers, in the order in which they are asked, are in *skip_layers*.

    Used as ``with LayoutConfig(skip_layers=[0]): …``.
    """

    current: ClassVar[LayoutConfig | None] = None

    def __init__(self, skip_layers: Iterable[int] | None = None):
        self.skip_counter = 0
        self.skip_layers: list[int] = list(skip_layers or ())
        self._outer: LayoutConfig | None = None

    def check_skip(self) -> bool:
        """True when the convolution that asks now is to be skipped; counts it."""
        skip = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return skip

    def reset(self) -> None:
        """Count from 0 again, skipping nothing."""
        self.skip_counter, self.skip_layers = 0, []

    def __enter__(self) -> LayoutConfig:
        self._outer, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(self, *exc: object) -> None:
        LayoutConfig.current = self._outer
