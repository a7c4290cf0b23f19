"""The machine: frames on a stack of its own, so that calls nest as deep as memory allows.

A call whose result is returned at once takes the place of its caller, so that a loop written as recursion needs no
memory. A loop whose turns are one call each is run by that function where it can (``loops.py``). A register is emptied
after its last use. Source: ``src/runtime/vm/vm.cc`` of TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime.core.container import ADT
from byoc.runtime.core.errors import ArtifactError, InternalError, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.time_limit import LIMIT, check_time
from byoc.runtime.kernels.core.registry import get_kernel
from byoc.runtime.vm import instructions as i
from byoc.runtime.vm.library_calls import LibraryCalls
from byoc.runtime.vm.loops import Loops
from byoc.runtime.vm.program import VMFunction
from byoc.runtime.vm.sequences import apply
from byoc.runtime.vm.values import Value, VMClosure, VMReference

MachineStep = tuple[
    Callable[..., None], i.Instruction, Sequence[int]
]  # what it does, and the registers that die behind it


class Frame:
    """One activation of a function: its registers, where it is, and where its caller wants the result."""

    __slots__ = ("code", "place", "registers", "result")

    def __init__(self, function: VMFunction, code: Sequence[MachineStep], result: int):
        self.code = code
        self.place = 0
        self.registers: list[Value] = [None] * function.register_file_size
        self.result = result


def last_uses(function: VMFunction) -> list[tuple[int, ...]]:
    """For each instruction the registers that nothing after it reads; jumps go forwards, so the last in the text."""
    last: dict[int, int] = {}
    for place, instruction in enumerate(function.instructions):
        for register in (*instruction.reads, *instruction.writes):
            last[register] = place
    dying: list[list[int]] = [[] for _ in function.instructions]
    for register, place in last.items():
        dying[place].append(register)
    return [tuple(registers) for registers in dying]


class BytecodeMachine:
    """Runs the functions of one program; any number of threads may call :meth:`call`."""

    def __init__(self, functions: Sequence[VMFunction], constants: Sequence[NDArray | None], calls: LibraryCalls):
        self._functions, self._constants, self._calls = functions, constants, calls
        self._code = {id(function): _steps(function) for function in functions}
        self._loops = Loops(functions, constants)

    def call(self, function: VMFunction, args: Sequence[Value]) -> Value:
        """What *function* gives for *args*. Raises UserError where no clause of a match fits."""
        bottom = Frame(_START, _START_CODE, 0)
        frames = [bottom]
        self._enter(frames, function, args, 0)
        while len(frames) > 1:
            if LIMIT.deadline:
                check_time()
            frame = frames[-1]
            step, instruction, dying = frame.code[frame.place]
            frame.place += 1
            step(self, frames, frame, instruction)
            if dying and frames[-1] is frame:
                for register in dying:
                    frame.registers[register] = None
        return bottom.registers[0]

    def _enter(
        self,
        frames: list[Frame],
        function: VMFunction,
        args: Sequence[Value],
        result: int,
        closure: VMClosure | None = None,
    ) -> None:
        if len(args) != len(function.params):
            raise InternalError(f"function {function.name} takes {len(function.params)} values, got {len(args)}")
        if function in self._loops:
            args = self._loops.advanced(function, args, self._calls)
        caller = frames[-1]
        if caller.place < len(caller.code):
            following = caller.code[caller.place][1]
            if type(following) is i.Ret and following.result == result and len(frames) > 1:
                frames.pop()
                result = caller.result
            else:
                for register in caller.code[caller.place - 1][2]:
                    caller.registers[register] = None
        frame = Frame(function, self._code[id(function)], result)
        frame.registers[: len(args)] = args
        if closure is not None:
            for register, value in zip(function.captured, closure.captured, strict=True):
                frame.registers[register] = value
            if function.own >= 0:
                frame.registers[function.own] = closure
        frames.append(frame)

    # one step for each instruction ----------------------------------------------------------------------------------

    def _move(self, frames: list[Frame], frame: Frame, op: i.Move) -> None:
        frame.registers[op.dst] = frame.registers[op.src]

    def _ret(self, frames: list[Frame], frame: Frame, op: i.Ret) -> None:
        frames.pop()
        frames[-1].registers[frame.result] = frame.registers[op.result]

    def _invoke(self, frames: list[Frame], frame: Frame, op: i.Invoke) -> None:
        self._enter(frames, self._functions[op.function], [frame.registers[r] for r in op.args], op.dst)

    def _invoke_closure(self, frames: list[Frame], frame: Frame, op: i.InvokeClosure) -> None:
        closure = frame.registers[op.closure]
        if not isinstance(closure, VMClosure):
            raise UserError(f"a value that is no function is called ({type(closure).__name__}): give a function")
        self._enter(frames, closure.function, [frame.registers[r] for r in op.args], op.dst, closure)

    def _invoke_packed(self, frames: list[Frame], frame: Frame, op: i.InvokePacked) -> None:
        args = [_tensor(frame, r) for r in op.args]
        for register, value in zip(op.outputs, self._calls.call(op.packed, args), strict=True):
            frame.registers[register] = value

    def _alloc_adt(self, frames: list[Frame], frame: Frame, op: i.AllocADT) -> None:
        frame.registers[op.dst] = ADT(op.tag, [frame.registers[r] for r in op.fields])

    def _alloc_closure(self, frames: list[Frame], frame: Frame, op: i.AllocClosure) -> None:
        captured = tuple([frame.registers[r] for r in op.captured])
        frame.registers[op.dst] = VMClosure(self._functions[op.function], captured)

    def _get_field(self, frames: list[Frame], frame: Frame, op: i.GetField) -> None:
        frame.registers[op.dst] = _data(frame, op.object)[op.field]  # type: ignore[call-overload]  # of the VM's values

    def _get_tag(self, frames: list[Frame], frame: Frame, op: i.GetTag) -> None:
        frame.registers[op.dst] = _data(frame, op.object).tag

    def _if(self, frames: list[Frame], frame: Frame, op: i.If) -> None:
        same = _number(frame.registers[op.test]) == _number(frame.registers[op.target])
        frame.place += (op.true_offset if same else op.false_offset) - 1

    def _goto(self, frames: list[Frame], frame: Frame, op: i.Goto) -> None:
        frame.place += op.offset - 1

    def _load_const(self, frames: list[Frame], frame: Frame, op: i.LoadConst) -> None:
        constant = self._constants[op.constant]
        if constant is None:
            raise ArtifactError(
                f"constant {op.constant} was moved out of the executable: load it with load_late_bound_consts(path)"
            )
        frame.registers[op.dst] = constant

    def _load_consti(self, frames: list[Frame], frame: Frame, op: i.LoadConsti) -> None:
        frame.registers[op.dst] = op.value

    def _fatal(self, frames: list[Frame], frame: Frame, op: i.Fatal) -> None:
        raise UserError(op.message)

    def _shape_of(self, frames: list[Frame], frame: Frame, op: i.ShapeOf) -> None:
        frame.registers[op.dst] = NDArray(np.array(_tensor(frame, op.tensor).shape, "int64"))

    def _reshape_tensor(self, frames: list[Frame], frame: Frame, op: i.ReshapeTensor) -> None:
        reshape = get_kernel("dyn.reshape")
        new = reshape(_tensor(frame, op.tensor).numpy(), _tensor(frame, op.newshape).numpy())
        frame.registers[op.dst] = NDArray(new)

    def _alloc_ref(self, frames: list[Frame], frame: Frame, op: i.AllocRef) -> None:
        frame.registers[op.dst] = VMReference(frame.registers[op.value_register])

    def _read_ref(self, frames: list[Frame], frame: Frame, op: i.ReadRef) -> None:
        frame.registers[op.dst] = _reference(frame, op.ref).value

    def _write_ref(self, frames: list[Frame], frame: Frame, op: i.WriteRef) -> None:
        _reference(frame, op.ref).value = frame.registers[op.value_register]

    def _sequence(self, frames: list[Frame], frame: Frame, op: i.SequenceStep) -> None:
        frame.registers[op.dst] = apply(op.operation, [frame.registers[r] for r in op.args], op.settings)


_START = VMFunction("", (), (i.Fatal("the bottom of the stack was reached"),), 1)

_STEPS: dict[type, Callable[..., None]] = {
    i.Move: BytecodeMachine._move,
    i.Ret: BytecodeMachine._ret,
    i.Invoke: BytecodeMachine._invoke,
    i.InvokeClosure: BytecodeMachine._invoke_closure,
    i.InvokePacked: BytecodeMachine._invoke_packed,
    i.AllocADT: BytecodeMachine._alloc_adt,
    i.AllocClosure: BytecodeMachine._alloc_closure,
    i.GetField: BytecodeMachine._get_field,
    i.If: BytecodeMachine._if,
    i.LoadConst: BytecodeMachine._load_const,
    i.Goto: BytecodeMachine._goto,
    i.GetTag: BytecodeMachine._get_tag,
    i.LoadConsti: BytecodeMachine._load_consti,
    i.Fatal: BytecodeMachine._fatal,
    i.ShapeOf: BytecodeMachine._shape_of,
    i.ReshapeTensor: BytecodeMachine._reshape_tensor,
    i.AllocRef: BytecodeMachine._alloc_ref,
    i.ReadRef: BytecodeMachine._read_ref,
    i.WriteRef: BytecodeMachine._write_ref,
    i.SequenceStep: BytecodeMachine._sequence,
}


def _steps(function: VMFunction) -> list[MachineStep]:
    """The code of *function* as the machine goes through it."""
    pairs = zip(function.instructions, last_uses(function), strict=True)
    return [(_STEPS[type(instruction)], instruction, dying) for instruction, dying in pairs]


_START_CODE = _steps(_START)


def _number(value: Value) -> int:
    """The number that a test compares: of the machine itself, or in a scalar tensor."""
    if isinstance(value, int):
        return value
    if not isinstance(value, NDArray) or value.numpy().size != 1 or value.numpy().dtype.kind not in "iub":
        raise UserError(f"a number is expected, got a {type(value).__name__}")
    return int(value.numpy().item())


def _data(frame: Frame, register: int) -> ADT:
    value = frame.registers[register]
    if not isinstance(value, ADT):
        raise UserError(f"a tuple or algebraic data is expected, got a {type(value).__name__}")
    return value


def _tensor(frame: Frame, register: int) -> NDArray:
    value = frame.registers[register]
    if not isinstance(value, NDArray):
        raise UserError(f"a tensor is expected, got a {type(value).__name__}")
    return value


def _reference(frame: Frame, register: int) -> VMReference:
    value = frame.registers[register]
    if not isinstance(value, VMReference):
        raise UserError(f"a reference is expected, got a {type(value).__name__}")
    return value


__all__ = ["BytecodeMachine", "Frame", "last_uses"]
