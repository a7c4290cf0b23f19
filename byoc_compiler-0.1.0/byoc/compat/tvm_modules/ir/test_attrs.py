"""Attributes that TVM's tests make by key: ``attrs.TestAttrs``. Source: ``tvm.ir.make_node("attrs.TestAttrs", …)``."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.compat.tvm_modules.error import OpAttributeInvalid, OpAttributeRequired
from byoc.ir.attrs import Attrs


@dataclass(frozen=True)
class TestAttrs(Attrs):
    """A name, which must be given, an axis from 1 to 10, and a padding.

    Raises OpAttributeRequired without a name, OpAttributeInvalid for another axis.
    """

    __test__ = False  # for pytest, to which the name looks like tests

    axis: int = 10
    name: str | None = None
    padding: tuple[int, ...] = (0, 0)
    func: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is None:
            raise OpAttributeRequired("attrs.TestAttrs needs the attribute name")
        if not 1 <= self.axis <= 10:
            raise OpAttributeInvalid(f"the axis of attrs.TestAttrs is from 1 to 10, got {self.axis}")
