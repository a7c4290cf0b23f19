"""The compiler to the virtual machine's bytecode: control flow, closures, algebraic data and dynamic shapes."""

from byoc.driver.vm.compile import compile_module

__all__ = ["compile_module"]
