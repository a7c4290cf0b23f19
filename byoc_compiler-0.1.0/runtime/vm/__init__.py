"""The virtual machine: programs with control flow, closures, algebraic data and dynamic shapes, without a compiler.

``Executable.load_exec(code, lib)`` or ``byoc.runtime.load_module_tree(path)`` loads one; ``VirtualMachine`` runs it.
Source: ``tvm.runtime.vm``.
"""

from byoc.runtime.vm.executable import Executable, ExecutableModule
from byoc.runtime.vm.virtual_machine import VirtualMachine

__all__ = ["Executable", "ExecutableModule", "VirtualMachine"]
