"""Known-good outputs in the place of a region's run, for tests on machines without the device.

A region that was compiled where it cannot run is given the outputs that the device gave once; the rest of the model
computes on them. Each is used once, in order, and nothing stays behind the ``with``. Source: the hook
``relay.ethos-n.test.infra.inference_result`` of TVM's Arm Ethos-N integration.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from byoc.runtime.core.errors import UserError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import from_any

_GIVEN: dict[str, deque[list[np.ndarray]]] = {}  # by region or target: the outputs of runs to come
_LOCK = new_lock()


@contextlib.contextmanager
def known_outputs(region: str, *runs: Sequence[object]) -> Iterator[None]:
    """Have the next runs of *region* give *runs* in the place of what its backend computes.

        with known_outputs("acme", [first_output], [second_output]):
            library.run(inputs)
            library.run(other_inputs)

    Args:
        region: the symbol of a region, or a target, of whose regions each run takes the next.
        runs: for each run the arrays of its outputs, in their order.

    Raises:
        UserError: a run is no sequence of arrays, *region* has known outputs already, or some were never asked for.
        ContractError: raised by the run, for an array that is not of the output's shape and dtype.
    """
    if not runs or any(isinstance(run, (str, np.ndarray)) or not isinstance(run, Sequence) for run in runs):
        raise UserError(f"known outputs of {region!r}: expected for each run a list of arrays, one for each output")
    given = deque([np.array(from_any(array)) for array in run] for run in runs)
    with _LOCK:
        if region in _GIVEN:
            raise UserError(f"known outputs of {region!r} are given already, by a with around this one")
        _GIVEN[region] = given
    try:
        yield
    finally:
        with _LOCK:
            del _GIVEN[region]
    if given:
        raise UserError(
            f"known outputs of {region!r}: {len(given)} of {len(runs)} runs were never asked for; look in the plan for "
            "whether there is such a region, and count its runs"
        )


def has_known_outputs(*names: str) -> bool:
    """Whether a run of what has one of *names* would be given its outputs."""
    return bool(_GIVEN) and any(_GIVEN.get(name) for name in names)


def next_outputs(*names: str) -> list[np.ndarray] | None:
    """The outputs for a run of what has one of *names*, which are then used up; None where there are none."""
    if not _GIVEN:
        return None
    with _LOCK:
        return next((_GIVEN[name].popleft() for name in names if _GIVEN.get(name)), None)
