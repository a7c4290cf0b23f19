"""``byoc profile --vm``: a model by the virtual machine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.debug.machine_runs import input_specs
from byoc.errors import InputError, UserError
from byoc.runtime.core.derived_size import is_derived
from byoc.runtime.core.device import cpu
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.vm.executable import Executable
from byoc.runtime.vm.virtual_machine import VirtualMachine
from byoc.testing.core.inputs import seeded_inputs


def profile_by_machine(
    executable: Executable, given: Mapping[str, np.ndarray], sizes: Mapping[str, int], runs: tuple[int, int]
) -> RunProfile:
    """The profile of an executable by the virtual machine: inputs not *given* are seeded; *runs* that count, and not.

    Raises UserError for inputs that no seed can give, for names and sizes that the model does not have.
    """
    specs = input_specs(executable)
    unknown = [name for name in given if name not in {s.name for s in specs}]
    if unknown:
        raise InputError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(s.name for s in specs)}")
    free = dict.fromkeys(d for s in specs for d in s.shape if isinstance(d, str) and not is_derived(d))
    other = next((name for name in sizes if name not in free), None)
    if other is not None:
        raise UserError(f"--size {other}={sizes[other]}: the free dimensions are {', '.join(free) or 'none'}")
    inputs = {**seeded_inputs(specs, sizes), **given}
    repeat, warmup = runs
    return VirtualMachine(executable, cpu()).profile(*(inputs[s.name] for s in specs), repeat=repeat, warmup=warmup)
