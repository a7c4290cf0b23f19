"""The code of one function in the making: registers, and jumps to places that are not known yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from byoc.runtime.vm.instructions import Goto, If, Instruction


@dataclass(frozen=True)
class Jump:
    """A jump that waits for its target."""

    place: int


@dataclass
class CodeBuilder:
    """Instructions, and the number of registers that they use."""

    instructions: list[Instruction] = field(default_factory=list)
    registers: int = 0

    def new_register(self) -> int:
        """A register that nothing else uses."""
        self.registers += 1
        return self.registers - 1

    def emit(self, instruction: Instruction) -> None:
        """Append an instruction."""
        self.instructions.append(instruction)

    def into_new(self, make: Callable[[int], Instruction]) -> int:
        """Append the instruction that *make* gives for a new register, and return that register."""
        register = self.new_register()
        self.emit(make(register))
        return register

    def jump(self) -> Jump:
        """A jump to a place that :meth:`land` says later."""
        self.emit(Goto(0))
        return Jump(len(self.instructions) - 1)

    def jump_unless(self, test: int, target: int) -> Jump:
        """A jump that is taken where the numbers in two registers differ; otherwise the code goes on."""
        self.emit(If(test, target, 1, 0))
        return Jump(len(self.instructions) - 1)

    def land(self, jump: Jump) -> None:
        """Let *jump* go to the next instruction."""
        waiting, offset = self.instructions[jump.place], len(self.instructions) - jump.place
        if isinstance(waiting, If):
            self.instructions[jump.place] = If(waiting.test, waiting.target, 1, offset)
        else:
            self.instructions[jump.place] = Goto(offset)
