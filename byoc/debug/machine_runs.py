"""Executables of the virtual machine, as comparisons and profiles run them: loaded, asked for inputs, and run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from byoc.errors import UserError
from byoc.runtime.core.container import ADT
from byoc.runtime.core.device import cpu
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.module_tree import load_module_tree
from byoc.runtime.vm.executable import Executable, ExecutableModule
from byoc.runtime.vm.virtual_machine import MAIN, VirtualMachine


def load_executable(path: str | os.PathLike[str]) -> Executable:
    """The executable that ``ExecutableModule.export_library`` wrote.

    Raises UserError for a file that holds none, and as ``load_module_tree``.
    """
    root = load_module_tree(Path(path))
    if not isinstance(root, ExecutableModule):
        raise UserError(f"{path}: expected an executable of the virtual machine, found a module of {root.type_key!r}")
    return root.executable


def input_specs(executable: Executable) -> list[TensorSpec]:
    """What ``main`` takes. Raises UserError where an input is no tensor."""
    function = executable.function(MAIN)
    found = []
    for name, kind in zip(function.params, function.param_types, strict=True):
        if not isinstance(kind, TensorSpec):
            raise UserError(f"input {name!r} is no tensor, and no other is given here; use VirtualMachine.invoke")
        found.append(kind)
    return found


def run_executable(executable: Executable, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The tensors that ``main`` gives, tuples flattened. Raises UserError for a result that holds anything else."""
    result = VirtualMachine(executable, cpu()).run(*(inputs[s.name] for s in input_specs(executable)))
    return [array.numpy().copy() for array in _tensors(result)]


def _tensors(value: object) -> list[NDArray]:
    if isinstance(value, NDArray):
        return [value]
    if isinstance(value, ADT):
        return [array for field in value for array in _tensors(field)]
    raise UserError(f"the executable gives a {type(value).__name__}, and tensors are compared alone")
