"""The instructions of the virtual machine: registers, calls, data, jumps.

An instruction names registers by number; jumps count instructions forwards from their own place, so that a function
runs to its end and loops are calls. ``fields`` are what is saved; ``reads`` and ``writes`` say which registers. The
opcodes are those of Relay's machine (``include/tvm/runtime/vm/bytecode.h``); those from 64 on are ours.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import ClassVar

from byoc.runtime.core.errors import ArtifactError

Registers = tuple[int, ...]


@dataclass(frozen=True)
class Instruction:
    """The root of instructions."""

    opcode: ClassVar[int] = -1
    name: ClassVar[str] = ""
    reading: ClassVar[tuple[str, ...]] = ()  # the fields that are registers which are read
    writing: ClassVar[tuple[str, ...]] = ("dst",)

    @property
    def reads(self) -> Registers:
        """The registers that are read."""
        return self._registers(self.reading)

    @property
    def writes(self) -> Registers:
        """The registers that are written."""
        return self._registers(self.writing)

    def _registers(self, names: Sequence[str]) -> Registers:
        found: list[int] = []
        for name in names:
            value = getattr(self, name)
            found.extend(value if isinstance(value, tuple) else (value,))
        return tuple(found)

    def to_json(self) -> list[object]:
        """The opcode and the fields."""
        return [self.opcode, *(list(f) if isinstance(f, tuple) else f for f in astuple(self))]

    def words(self) -> list[object]:
        """The opcode and all numbers in the fields, one after another."""
        flat: list[object] = [self.opcode]
        for value in astuple(self):
            flat.extend(value if isinstance(value, tuple) else (value,))
        return flat

    def text(self) -> str:
        """The instruction as a reader sees it: ``move $2 $0``."""
        return " ".join([self.name, *(_field_text(f.name, getattr(self, f.name)) for f in fields(self))])

    def __str__(self) -> str:
        return self.text()


_PLAIN = ("tag", "value", "field", "true_offset", "false_offset", "offset", "message")


def _field_text(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return registers_text(value)
    return str(value) if name in _PLAIN else f"${value}"


def registers_text(registers: Registers) -> str:
    """``$1, $2``."""
    return ", ".join(f"${r}" for r in registers)


@dataclass(frozen=True)
class Move(Instruction):
    """``dst = src``."""

    dst: int
    src: int
    opcode = 0
    name = "move"
    reading = ("src",)


@dataclass(frozen=True)
class Ret(Instruction):
    """Leave the function with *result*."""

    result: int
    opcode = 1
    name = "ret"
    reading = ("result",)
    writing = ()


@dataclass(frozen=True)
class Invoke(Instruction):
    """``dst`` is what function *function* gives for *args*; followed by the return of ``dst``, a tail call."""

    dst: int
    function: int
    args: Registers
    opcode = 2
    name = "invoke"
    reading = ("args",)

    def text(self) -> str:
        return f"invoke ${self.dst} VMFunc[{self.function}]({registers_text(self.args)})"


@dataclass(frozen=True)
class InvokeClosure(Instruction):
    """``dst`` is what *closure* gives for *args*."""

    dst: int
    closure: int
    args: Registers
    opcode = 3
    name = "invoke_closure"
    reading = ("closure", "args")

    def text(self) -> str:
        return f"invoke_closure ${self.dst} ${self.closure}({registers_text(self.args)})"


@dataclass(frozen=True)
class InvokePacked(Instruction):
    """Call function *packed* of the library on *args*; its outputs go to *outputs*."""

    packed: int
    args: Registers
    outputs: Registers
    opcode = 4
    name = "invoke_packed"
    reading = ("args",)
    writing = ("outputs",)

    def text(self) -> str:
        ins, outs = registers_text(self.args), registers_text(self.outputs)
        return f"invoke_packed PackedFunc[{self.packed}] (in: {ins}, out: {outs})"


@dataclass(frozen=True)
class AllocADT(Instruction):
    """``dst`` is new data with *tag*; 0 is a tuple."""

    dst: int
    tag: int
    fields: Registers
    opcode = 7
    name = "alloc_data"
    reading = ("fields",)

    def text(self) -> str:
        return f"alloc_data ${self.dst} tag({self.tag}) [{registers_text(self.fields)}]"


@dataclass(frozen=True)
class AllocClosure(Instruction):
    """``dst`` is function *function* together with the values of *captured*."""

    dst: int
    function: int
    captured: Registers
    opcode = 8
    name = "alloc_closure"
    reading = ("captured",)

    def text(self) -> str:
        return f"alloc_closure ${self.dst} VMFunc[{self.function}]({registers_text(self.captured)})"


@dataclass(frozen=True)
class GetField(Instruction):
    """``dst`` is field number *field* of *object*."""

    dst: int
    object: int
    field: int
    opcode = 9
    name = "get_field"
    reading = ("object",)

    def text(self) -> str:
        return f"get_field ${self.dst} ${self.object}[{self.field}]"


@dataclass(frozen=True)
class If(Instruction):
    """Go on at *true_offset* where the number in *test* is that in *target*, else at *false_offset*."""

    test: int
    target: int
    true_offset: int
    false_offset: int
    opcode = 10
    name = "if"
    reading = ("test", "target")
    writing = ()


@dataclass(frozen=True)
class LoadConst(Instruction):
    """``dst`` is constant number *constant*."""

    dst: int
    constant: int
    opcode = 11
    name = "load_const"

    def text(self) -> str:
        return f"load_const ${self.dst} Const[{self.constant}]"


@dataclass(frozen=True)
class Goto(Instruction):
    """Go on *offset* instructions further."""

    offset: int
    opcode = 12
    name = "goto"
    writing = ()


@dataclass(frozen=True)
class GetTag(Instruction):
    """``dst`` is the tag of *object*."""

    dst: int
    object: int
    opcode = 13
    name = "get_tag"
    reading = ("object",)


@dataclass(frozen=True)
class LoadConsti(Instruction):
    """``dst`` is the number *value*."""

    dst: int
    value: int
    opcode = 14
    name = "load_consti"


@dataclass(frozen=True)
class Fatal(Instruction):
    """Stop with *message*."""

    message: str
    opcode = 15
    name = "fatal"
    writing = ()

    def words(self) -> list[object]:
        return [self.opcode]


@dataclass(frozen=True)
class ShapeOf(Instruction):
    """``dst`` is the shape of *tensor* as a vector: i64[rank]."""

    dst: int
    tensor: int
    opcode = 17
    name = "shape_of"
    reading = ("tensor",)


@dataclass(frozen=True)
class ReshapeTensor(Instruction):
    """``dst`` is *tensor* in the shape that the integer vector *newshape* says, with Relay's 0, -1, -2, -3 and -4."""

    dst: int
    tensor: int
    newshape: int
    opcode = 18
    name = "reshape_tensor"
    reading = ("tensor", "newshape")


@dataclass(frozen=True)
class AllocRef(Instruction):
    """``dst`` is a new reference that holds *value*."""

    dst: int
    value_register: int
    opcode = 64
    name = "alloc_ref"
    reading = ("value_register",)


@dataclass(frozen=True)
class ReadRef(Instruction):
    """``dst`` is what *ref* holds."""

    dst: int
    ref: int
    opcode = 65
    name = "read_ref"
    reading = ("ref",)


@dataclass(frozen=True)
class WriteRef(Instruction):
    """Put *value_register* into *ref*."""

    ref: int
    value_register: int
    opcode = 66
    name = "write_ref"
    reading = ("ref", "value_register")
    writing = ()


@dataclass(frozen=True)
class SequenceStep(Instruction):
    """``dst`` is what *operation* (``vm/sequences.py``) gives for *args*, with *settings* as JSON."""

    dst: int
    args: Registers
    operation: str
    settings: str
    opcode = 67
    name = "sequence"
    reading = ("args",)

    def text(self) -> str:
        return f"{self.operation} ${self.dst} ({registers_text(self.args)}) {self.settings}"


INSTRUCTIONS: dict[int, type[Instruction]] = {
    kind.opcode: kind
    for kind in (
        Move,
        Ret,
        Invoke,
        InvokeClosure,
        InvokePacked,
        AllocADT,
        AllocClosure,
        GetField,
        If,
        LoadConst,
        Goto,
        GetTag,
        LoadConsti,
        Fatal,
        ShapeOf,
        ReshapeTensor,
        AllocRef,
        ReadRef,
        WriteRef,
        SequenceStep,
    )
}


def instruction_from_json(data: Sequence[object]) -> Instruction:
    """The instruction that :meth:`Instruction.to_json` wrote. Raises ArtifactError for anything else."""
    kind = INSTRUCTIONS.get(data[0]) if data and type(data[0]) is int else None
    if kind is None or len(data) != 1 + len(fields(kind)):
        raise ArtifactError(
            f"the bytecode holds {reprlib.repr(data)}, which is no instruction; compile the program again"
        )
    values = [_field(f.type, value) for f, value in zip(fields(kind), data[1:], strict=True)]
    if None in values:
        raise ArtifactError(
            f"the bytecode holds {reprlib.repr(data)}, whose fields are not those of {kind.name}; compile again"
        )
    return kind(*values)


def _field(annotation: object, value: object) -> object | None:
    if annotation == "Registers":
        return tuple(value) if isinstance(value, list) and all(type(v) is int and v >= 0 for v in value) else None
    return value if type(value) is {"int": int, "str": str}[str(annotation)] else None
