"""A program as bytes: a mark, a JSON head with functions and symbols, and the constants as safetensors.

The same program gives the same bytes; nothing in them is executed to read them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.strict_json import at, number_of, numbered, object_of, read_json
from byoc.runtime.files.weights import read_weights, write_weights
from byoc.runtime.vm.program import PackedSymbol, VMFunction, check_program

MARK = b"byoc-vm\x00"
VERSION = 1
MOST_CONSTANTS = 1 << 22
WHERE = "the bytecode is damaged"
_LENGTH = struct.Struct("<Q")


def write_code(
    functions: Sequence[VMFunction], symbols: Sequence[PackedSymbol], constants: Sequence[NDArray | None]
) -> bytearray:
    """The bytes of a program; a constant that is None was moved out of it.

    Raises UserError for a constant of strings, which cannot be saved.
    """
    head = {
        "version": VERSION,
        "functions": [f.to_json() for f in functions],
        "symbols": [s.to_json() for s in symbols],
        "constants": len(constants),
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    arrays = write_weights({str(k): c for k, c in enumerate(constants) if c is not None})
    return bytearray(MARK + _LENGTH.pack(len(text)) + text + arrays)


def read_code(
    code: bytes | bytearray | memoryview,
) -> tuple[list[VMFunction], list[PackedSymbol], list[NDArray | None]]:
    """The program that :func:`write_code` wrote. Raises ArtifactError for bytes of another kind, or damaged ones."""
    data = memoryview(bytes(code))
    if bytes(data[: len(MARK)]) != MARK:
        raise ArtifactError("these bytes are no bytecode of the virtual machine: give what Executable.save wrote")
    start = len(MARK) + _LENGTH.size
    try:
        (length,) = _LENGTH.unpack(data[len(MARK) : start])
        if length > len(data) - start:
            raise ArtifactError("the bytecode is damaged (its head does not lie in it); compile the program again")
        head = object_of(
            read_json(data[start : start + length], WHERE), WHERE, ("version", "functions", "symbols", "constants")
        )
        version = number_of(head["version"], at(WHERE, "version"), 1)
        if version > VERSION:
            raise ArtifactError(f"the bytecode has version {version}, this byoc reads up to {VERSION}: upgrade")
        functions = [VMFunction.from_json(f, place) for place, f in numbered(head, "functions", WHERE)]
        symbols = [PackedSymbol.from_json(s, place) for place, s in numbered(head, "symbols", WHERE)]
        count = number_of(head["constants"], at(WHERE, "constants"), 0, MOST_CONSTANTS)
    except (struct.error, ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise ArtifactError(f"the bytecode is damaged ({error!r}); compile the program again") from error
    arrays = read_weights(data[start + length :], "the bytecode")
    extra = [name for name in arrays if not name.isdecimal() or int(name) >= count or str(int(name)) != name]
    if extra:
        raise ArtifactError(f"the bytecode has {count} constants, and an array called {extra[0]!r}; compile it again")
    check_program(functions, symbols, count)
    return functions, symbols, [arrays.get(str(k)) for k in range(count)]
