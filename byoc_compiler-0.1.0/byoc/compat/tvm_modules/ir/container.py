"""Containers: byoc's are Python's own, and ``isinstance(x, Array)`` holds for them. Source: ``tvm.ir.container``."""

from __future__ import annotations


class _Like(type):
    """A class that Python's own containers count as."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _PLAIN[cls])


class Array(tuple[object, ...], metaclass=_Like):
    """A sequence: the shape of a type, the arguments of a call, a list attribute. Source: ``tvm.ir.Array``."""


class Map(dict[object, object], metaclass=_Like):
    """A mapping. Source: ``tvm.ir.Map``."""


_PLAIN: dict[type, tuple[type, ...]] = {Array: (tuple, list), Map: (dict,)}
