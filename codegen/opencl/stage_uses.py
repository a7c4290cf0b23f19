"""Who reads the stages of a program, and which of them are not rewritten."""

from __future__ import annotations

from byoc.codegen.kernel.attention import attentions
from byoc.codegen.kernel.program import Program
from byoc.codegen.opencl.device.kernel_plan import own_kernel
from byoc.codegen.opencl.group_fusion import readers_of
from byoc.te import Tensor, recurrence


class StageUses:
    """*readers* of each stage; those that are *fixed* are steps of a recurrence or parts of an attention."""

    def __init__(self, program: Program):
        self.readers = readers_of(program)
        steps = {s for g in program.groups for s in recurrence(g.stages)}
        self.fixed = steps | {s for a in attentions(program) for s in a.stages}  # have kernels of their own
        self._kept = {*program.outputs, *(s for g in program.groups if len(g.stages) > 1 for s in g.stages)}

    def has_one_reader(self, stage: Tensor) -> bool:
        """Whether one stage alone reads *stage*, and nothing else is said of its memory or its kernel."""
        return len(self.readers.get(stage, ())) == 1 and stage not in self._kept and own_kernel(stage) is None
