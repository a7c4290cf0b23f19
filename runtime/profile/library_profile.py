"""The profile of a library: node by node, as a whole, and against what its devices can do at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from byoc.runtime.graph.executor_base import Executor, check_names
from byoc.runtime.profile.graph_profile import Runs, peaks_of, profile_graph
from byoc.runtime.profile.seeded import seeded_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from byoc.runtime.core.signature import TensorSpec
    from byoc.runtime.devices.peak import Peak
    from byoc.runtime.executors.graph_executor import GraphExecutor
    from byoc.runtime.modules.metadata import MetadataModule
    from byoc.runtime.profile.run_profile import RunProfile


class Profiled(Protocol):
    """What is asked of a library here."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """What it takes."""

    @property
    def input_defaults(self) -> Mapping[str, np.ndarray]:
        """The values of the inputs that a call may leave out."""

    module: MetadataModule

    def executor(self) -> Executor:
        """What runs it as a whole."""

    def graph_executor(self) -> GraphExecutor:
        """What runs it node by node."""


def profile_library(
    library: Profiled,
    inputs: Mapping[str, object] | None,
    repeat: int,
    warmup: int,
    peaks: Mapping[str, Peak] | None,
) -> RunProfile:
    """As ``Library.profile``. Raises InputError, and UserError for a number of runs that is none."""
    if inputs is not None:
        inputs = {**library.input_defaults, **inputs}
        check_names(library.inputs, inputs)
    values = {**seeded_inputs(library.inputs), **library.input_defaults} if inputs is None else {**inputs}
    found, problems = peaks_of(library.module) if peaks is None else (peaks, [])
    executors = library.graph_executor(), library.executor()
    profile = profile_graph("model", library.module, executors, values, Runs(repeat, warmup), found)
    return profile.noting(problems)
