"""The virtual machine: programs with control flow, closures, algebraic data and dynamic shapes, without a compiler.

``Executable.load_exec(code, lib)`` or ``byoc.runtime.load_module_tree(path)`` loads one; ``VirtualMachine`` runs it.
Source: ``tvm.runtime.vm``.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
