"""What a region becomes for an OpenCL device that is a processor before its kernels are written: as C's does."""

from __future__ import annotations

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.winograd.options import DEFAULT, WinogradOptions
from byoc.codegen.kernel.choice import Choices
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.stored_types import as_stored
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform.fuse.fuse_ops import DefuseOps
from byoc.relay.transform.stages import host_groups


def prepared_for(
    program: Program, machine: Machine, choices: Choices | None = None, allowed: WinogradOptions = DEFAULT
) -> Program:
    """*program* with its stages and constants as C's schedules for *machine* want them; the rest as of ``prepare``."""
    return prepare(as_stored(program), machine, choices, allowed)


def grouped(function: Function) -> Function:
    """A region's *function* in groups as the host's are: channels innermost where that pays, neighbours joined.

    Its inputs and results stay as they are, and so do its attributes; composites are their operators.
    """
    plain = Function(function.params, function.body, function.declared_ret_type, function.type_params, None)
    inlined = as_function(DefuseOps()(IRModule.from_expr(plain))["main"])
    return host_groups(inlined).with_attr(dict(function.attrs))
