"""Tuples whose fields are known apart: a tuple is put together only where it is needed as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from byoc.driver.bytecode.function_builder import CodeBuilder
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TupleType, Type
from byoc.runtime.vm.instructions import GetField

# a register, an expression, or the parts of a tuple
Part = int | RelayExpr | list["Part"]


class Tensors:
    """The parts of the tuples of one function, and how values are taken apart into tensors."""

    def __init__(self, code: CodeBuilder, register: Callable[[Part], int]):
        self.parts: dict[RelayExpr, Part] = {}
        self._code, self._register = code, register

    def flat(self, part: Part, ty: Type) -> list[int]:
        """The registers of the tensors in *part*, which is of type *ty*, tuples flattened."""
        if not isinstance(ty, TupleType):
            return [self._register(part)]
        if isinstance(part, RelayExpr) and part in self.parts:
            part = self.parts[part]
        fields: list[Part] = part if isinstance(part, list) else self._fields(self._register(part), len(ty.fields))
        return [r for field, inner in zip(fields, ty.fields, strict=True) for r in self.flat(field, inner)]

    def _fields(self, register: int, count: int) -> list[Part]:
        return [self._field(register, k) for k in range(count)]

    def _field(self, register: int, place: int) -> int:
        return self._code.into_new(lambda r: GetField(r, register, place))

    def structured(self, ty: Type, registers: Iterator[int]) -> Part:
        """*registers* in the nesting of *ty*."""
        if not isinstance(ty, TupleType):
            return next(registers)
        return [self.structured(field, registers) for field in ty.fields]
