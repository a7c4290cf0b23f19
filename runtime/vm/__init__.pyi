"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.runtime.vm.executable import Executable as Executable
from byoc.runtime.vm.executable import ExecutableModule as ExecutableModule
from byoc.runtime.vm.virtual_machine import VirtualMachine as VirtualMachine
