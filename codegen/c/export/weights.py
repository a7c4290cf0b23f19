"""The weights of exported code: arrays in C, or one file that is assembled into the program or given when it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.codegen.c.export.options import ARRAYS, INCLUDED, SEPARATE, ExportOptions, joined
from byoc.codegen.c.language.spellings import TYPES, literal
from byoc.codegen.kernel.writer import Names, comment_text
from byoc.ir.types import STORED
from byoc.runtime.core.ndarray import ALIGNMENT, NDArray

_LINE = 12  # numbers in a line
_WIDE = ("int64", "uint64", "uint32")  # literals of these may need a suffix


@dataclass(frozen=True)
class Weight:
    """One array: its name, dtype, elements in order, where it lies in a file, and whose it is, for people."""

    name: str
    dtype: str
    values: np.ndarray
    offset: int
    origin: str

    def declaration(self) -> str:
        return f"const {TYPES[self.dtype]} {self.name}[{max(self.values.size, 1)}]"


@dataclass
class Weights:
    """All arrays, equal ones once. ``add`` them in the order of use."""

    symbol: str
    arrays: list[Weight] = field(default_factory=list)
    _by_content: dict[tuple[str, str], Weight] = field(default_factory=dict)
    _size: int = 0

    def __post_init__(self) -> None:
        self._names = Names(self.reserved)

    def add(self, hint: str, array: NDArray) -> Weight:
        """The weight that holds *array*; *hint* names it if it is new."""
        values = np.asarray(array.numpy(), order="C").reshape(-1)
        key = (array.dtype, hashlib.sha256(values.tobytes()).hexdigest())
        if key not in self._by_content:
            shape = ", ".join(map(str, array.shape))
            name = self._names.fresh(f"{self.symbol}_{hint}")
            weight = Weight(name, array.dtype, values, self._size, comment_text(f"{hint}: {array.dtype}[{shape}]"))
            self._size += -(-values.nbytes // ALIGNMENT) * ALIGNMENT
            self._by_content[key] = weight
            self.arrays.append(weight)
        return self._by_content[key]

    @property
    def reserved(self) -> list[str]:
        """The names with the symbol's prefix that are no arrays."""
        return [f"{self.symbol}_{end}" for end in ("run", "run_part", "check", "steps", "weights", "meeting")]

    @property
    def size(self) -> int:
        """The bytes of the file that holds them."""
        return self._size

    def file(self) -> bytes:
        """The file: the arrays at their offsets, 0 between."""
        data = bytearray(self._size)
        for weight in self.arrays:
            data[weight.offset : weight.offset + weight.values.nbytes] = weight.values.tobytes()
        return bytes(data)

    def files(self, options: ExportOptions, form: str) -> dict[str, bytes]:
        """The files of the folder, by their names."""
        if not self.arrays:
            return {}
        base = f"{self.symbol}_weights"
        files = {} if form == ARRAYS else {f"{base}.bin": self.file()}
        if form != SEPARATE:
            source = _array_source(self.arrays, base, options) if form == ARRAYS else _included_source(base)
            declared = [f"extern {w.declaration()}; /* {w.origin} */" for w in self.arrays]
            if form == INCLUDED:
                declared = [f"extern const uint8_t {base}[{self._size}]; /* {base}.bin */"]
            files[f"{base}.h"] = _header(base, declared).encode()
            files[f"{base}.c"] = source.encode()
        return files


def _header(base: str, declared: Sequence[str]) -> str:
    guard = f"{base.upper()}_H"
    head = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>", ""]
    return "\n".join([*head, *declared, "", "#endif", ""])


def _array_source(arrays: Sequence[Weight], base: str, options: ExportOptions) -> str:
    aligned = "" if options.dialect.plain else f" __attribute__((aligned({ALIGNMENT})))"
    parts = [f'#include "{base}.h"\n\n#include <math.h>\n']
    for weight in arrays:
        texts = number_texts(weight.values, weight.dtype) or ["0"]
        lines = [", ".join(texts[k : k + _LINE]) for k in range(0, len(texts), _LINE)]
        body = ",\n  ".join(lines)
        parts.append(f"/* {weight.origin} */\n{weight.declaration()}{aligned} = {{\n  {body}\n}};\n")
    return joined(parts)


def _included_source(base: str) -> str:
    lines = [
        ".section .rodata",
        f".balign {ALIGNMENT}",
        f".global {base}",
        f".type {base}, %object",
        f"{base}:",
        f'.incbin \\"{base}.bin\\"',
        f".size {base}, . - {base}",
        ".previous",
    ]
    text = "\n".join(f'  "{line}\\n"' for line in lines)
    comment = f"/* The assembler takes {base}.bin from the folder where it runs. */"
    check = '#ifndef __ELF__\n#error "this is written for ELF objects: export again with --weights c or bin"\n#endif'
    return f'{comment}\n#include "{base}.h"\n\n{check}\n\n__asm__(\n{text}\n);\n'


def number_texts(values: np.ndarray, dtype: str) -> list[str]:
    """The elements as constants of C, which a compiler reads as the same bits (of a NaN: that it is one)."""
    if dtype in STORED:
        bits = values.view(STORED[dtype])
        return [f"0x{code:0{2 * bits.itemsize}x}" for code in bits.tolist()]
    if not dtype.startswith("float"):
        if dtype in _WIDE or dtype == "bool":
            return [literal(v, dtype) for v in values.tolist()]
        if dtype == "int32":
            return [literal(v, "int64") if v == -(2**31) else str(v) for v in values.tolist()]
        return list(map(str, values.tolist()))
    suffix = "f" if dtype == "float32" else ""
    texts = values.astype("U").tolist()  # numpy writes the shortest text that reads back
    if np.isfinite(values).all():
        return [f"{text}{suffix}" for text in texts]
    special = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
    return [special.get(text) or f"{text}{suffix}" for text in texts]
