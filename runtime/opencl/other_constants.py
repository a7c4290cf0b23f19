"""A function on a device once more, its constants in memory of their own: trials have them in several places.

The queue, the buffers of a call and who receives the times are shared, so that calls of both follow each other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from byoc.runtime.core.errors import DeviceMemoryError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.executors.shape_cache import ShapeCache
from byoc.runtime.opencl.devices import import_pyopencl
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.opencl.session import KEPT_SIZES, Session


@in_driver
def with_constants(session: Session, constants: Sequence[NDArray]) -> Session:
    """The function of *session* with *constants*, one for each of its own. Raises DeviceError."""
    other = copy.copy(session)
    driver_use().keep(other)
    other.bindings = ShapeCache(other._bind, KEPT_SIZES)
    try:
        numbers = range(session._plan.first_constant, session._plan.first_output)
        other._constants = [other._upload(c.numpy(), k) for c, k in zip(constants, numbers, strict=True)]
    except (DeviceMemoryError, import_pyopencl().Error) as error:
        raise session.failed("cannot take the constants again", error) from error
    return other
