"""The name of a dtype taken apart. Source: ``tvm.runtime.DataType``."""

from __future__ import annotations

import re

from byoc.errors import UserError

# DLPack's code of a kind of number
CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4}
_NAME = re.compile(r"(int|uint|float|bfloat|handle)(\d*)(?:x(\d+))?")


class DataType(str):
    """The name of a dtype, such as ``float32`` or ``int8x4``; equal to the plain text.

    Raises UserError for what is none.
    """

    type_code: int
    bits: int
    lanes: int

    def __new__(cls, dtype_str: str) -> DataType:
        made = super().__new__(cls, dtype_str)
        if dtype_str == "bool":
            made.type_code, made.bits, made.lanes = CODES["uint"], 1, 1
            return made
        found = _NAME.fullmatch(dtype_str)
        if found is None:
            raise UserError(f"{dtype_str!r} is no dtype, such as float32 or int8x4")
        kind, bits, lanes = found.groups()
        made.type_code, made.lanes = CODES[kind], int(lanes or 1)
        made.bits = int(bits or (64 if kind == "handle" else 32))
        return made

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (self.bits * self.lanes + 7) // 8
