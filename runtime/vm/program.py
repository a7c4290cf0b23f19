"""A program of the virtual machine: functions, the symbols of the library that they call, and their checks.

Invariant: a checked program names only registers, functions, constants and symbols that exist, and jumps forwards to
instructions of the same function; a machine need not look again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import TensorSpec, symbol_of
from byoc.runtime.core.strict_json import at, list_of, number_of, numbered, object_of, text_of, texts_of
from byoc.runtime.vm.instructions import (
    AllocClosure,
    Goto,
    If,
    Instruction,
    Invoke,
    InvokePacked,
    LoadConst,
    Ret,
    SequenceStep,
    instruction_from_json,
)
from byoc.runtime.vm.sequence_settings import check_operation

MOST_REGISTERS = 1 << 22
# what a parameter takes: a tensor, a tuple of such, or anything (None)
ParamType = TensorSpec | tuple["ParamType", ...] | None


@dataclass(frozen=True)
class VMFunction:
    """A function: its parameters are registers 0, 1, …; a closure of it fills *captured*, and *own* with itself.

    *checks_inputs* says whether a caller's arguments are held to *param_types*: they are in what byoc compiles. A
    program that was compiled by Relay's names leaves it to the functions that it calls, as Relay's machine does.
    """

    name: str
    params: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    register_file_size: int
    param_types: tuple[ParamType, ...] = ()
    captured: tuple[int, ...] = ()
    own: int = -1
    checks_inputs: bool = True

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "params": list(self.params),
            "registers": self.register_file_size,
            "types": [_type_json(t) for t in self.param_types],
            "captured": list(self.captured),
            "own": self.own,
            "code": [i.to_json() for i in self.instructions],
            **({} if self.checks_inputs else {"unchecked": 1}),
        }

    @staticmethod
    def from_json(data: object, where: str = "a function") -> VMFunction:
        """The function that :meth:`to_json` gave. Raises ArtifactError for another."""
        needed = ("name", "params", "registers", "types", "captured", "own", "code")
        fields = object_of(data, where, needed, ("unchecked",))
        return VMFunction(
            text_of(fields["name"], at(where, "name")),
            texts_of(fields["params"], at(where, "params")),
            tuple(instruction_from_json(list_of(i, place)) for place, i in numbered(fields, "code", where)),
            number_of(fields["registers"], at(where, "registers"), 0, MOST_REGISTERS),
            tuple(_type_from_json(t, place) for place, t in numbered(fields, "types", where)),
            tuple(number_of(r, place) for place, r in numbered(fields, "captured", where)),
            number_of(fields["own"], at(where, "own"), -1),
            not number_of(fields.get("unchecked", 0), at(where, "unchecked"), 0, 1),
        )

    def text(self, symbols: Sequence[PackedSymbol] = ()) -> str:
        """The function in the layout of Relay's machine: a header, then opcode, fields and text by line.

        With the *symbols* of the library, a line in front of each call of one says what memory the call takes for its
        outputs. Relay's machine has instructions for that: ``alloc_tensor`` for known shapes, ``alloc_tensor_reg``.
        """
        lines = [f"# reg file size = {self.register_file_size}", f"# instruction count = {len(self.instructions)}"]
        lines.append("opcode, fields # inst(text):")
        for index, instruction in enumerate(self.instructions):
            if isinstance(instruction, InvokePacked) and symbols:
                outputs = zip(instruction.outputs, symbols[instruction.packed].outputs, strict=False)
                lines += (f"    # {_allocation(register, spec)}, by the next" for register, spec in outputs)
            words = " ".join(map(str, instruction.words()))
            lines.append(f"{index:2d}: {words}   # {instruction}")
        return "\n".join(lines) + "\n"


def _allocation(register: int, spec: TensorSpec) -> str:
    """What a call takes for an output, in the words of Relay's machine."""
    shape = ", ".join("?" if d is None else str(d) for d in spec.shape)
    name = "alloc_tensor" if all(isinstance(d, int) for d in spec.shape) else "alloc_tensor_reg"
    return f"{name} ${register} [{shape}] {spec.dtype}"


@dataclass(frozen=True)
class PackedSymbol:
    """A function of the library: its symbol, and the tensors that it takes and gives."""

    symbol: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            "inputs": [s.to_json() for s in self.inputs],
            "outputs": [s.to_json() for s in self.outputs],
        }

    @staticmethod
    def from_json(data: object, where: str = "a symbol") -> PackedSymbol:
        """The symbol that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, ("symbol", "inputs", "outputs"))
        inputs, outputs = (
            tuple(TensorSpec.from_json(s, place) for place, s in numbered(fields, key, where))
            for key in ("inputs", "outputs")
        )
        return PackedSymbol(symbol_of(fields["symbol"], at(where, "symbol")), inputs, outputs)


def _type_json(ty: ParamType) -> object:
    if isinstance(ty, TensorSpec):
        return ty.to_json()
    return None if ty is None else [_type_json(t) for t in ty]


def _type_from_json(data: object, where: str) -> ParamType:
    if isinstance(data, dict):
        return TensorSpec.from_json(data, where)
    return None if data is None else tuple(_type_from_json(t, where) for t in list_of(data, where))


def check_program(functions: Sequence[VMFunction], packed: Sequence[PackedSymbol], constants: int) -> None:
    """Raises ArtifactError naming the function and the instruction that does not fit."""
    for function in functions:
        known = {*range(len(function.params)), *function.captured, function.own}
        typed = len(function.param_types) in (0, len(function.params))
        if any(r >= function.register_file_size for r in known) or not function.instructions or not typed:
            raise ArtifactError(f"function {function.name} of the bytecode is damaged; compile the program again")
        for place, instruction in enumerate(function.instructions):
            if not _fits(function, place, instruction, functions, packed, constants):
                raise ArtifactError(
                    f"instruction {place} of function {function.name} ({instruction}) does not fit the program; "
                    "compile it again"
                )


def _fits(
    function: VMFunction,
    place: int,
    instruction: Instruction,
    functions: Sequence[VMFunction],
    packed: Sequence[PackedSymbol],
    constants: int,
) -> bool:
    if any(not 0 <= r < function.register_file_size for r in (*instruction.reads, *instruction.writes)):
        return False
    last = len(function.instructions) - 1
    if isinstance(instruction, If):
        offsets: tuple[int, ...] = (instruction.true_offset, instruction.false_offset)
    elif isinstance(instruction, Goto):
        offsets = (instruction.offset,)
    else:
        offsets = () if isinstance(instruction, Ret) or instruction.name == "fatal" else (1,)
    if any(not 0 < offset <= last - place for offset in offsets):
        return False
    if isinstance(instruction, (Invoke, AllocClosure)):
        if not 0 <= instruction.function < len(functions):
            return False
        callee = functions[instruction.function]
        if isinstance(instruction, Invoke):
            return len(instruction.args) == len(callee.params) and not callee.captured
        return len(instruction.captured) == len(callee.captured)
    if isinstance(instruction, SequenceStep):
        check_operation(instruction.operation, len(instruction.args), instruction.settings)
    if isinstance(instruction, InvokePacked):
        if not 0 <= instruction.packed < len(packed):
            return False
        called = packed[instruction.packed]
        return (len(instruction.args), len(instruction.outputs)) == (len(called.inputs), len(called.outputs))
    return not isinstance(instruction, LoadConst) or 0 <= instruction.constant < constants
