"""The kernels of a call as a list that is ready to go: arguments set, sizes known.

They go into the queue one by one, which a driver takes in about a microsecond each, or all at once where they were
recorded (``command_buffer.py``). A queue that is flushed every *n* kernels hands these to the device while the host
still puts others behind them; some devices begin too late otherwise, and each flush costs others time. Source: MNN
flushes every 10 kernels on Adreno, every 2 elsewhere (``OpenCLRunningUtils.cpp``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from byoc.runtime.core.device_event import EventHeader
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.opencl.commands.command_buffer import CommandBuffers, RecordedKernels
from byoc.runtime.opencl.commands.event_free_launches import EventFreeLaunches

if TYPE_CHECKING:
    import pyopencl


class ReadyKernel(NamedTuple):
    """A kernel whose arguments are set, its sizes, and what profilers get of it."""

    kernel: pyopencl.Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None  # None: the driver chooses
    header: EventHeader


def most_items(cl: ModuleType, kernel: pyopencl.Kernel, device: pyopencl.Device, most: int) -> int:
    """The work-items that a group of *kernel* may have: *most*, or fewer where it needs many registers."""
    own = int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))
    return min(most, own) if own > 0 else most


def check_arguments(kernel: pyopencl.Kernel, name: str, pointers: int, sizes: Sequence[str], count: int) -> None:
    """Raises DeviceError where *kernel*, which its author calls *name*, does not take the *count* arguments given.

    They are *pointers*, then the *sizes* of these names.
    """
    if kernel.num_args != count:
        longs = f", then a long for each of its sizes ({', '.join(sizes)})" if sizes else ""
        raise DeviceError(
            f"the kernel {name} takes {kernel.num_args} arguments and is given {count}: a pointer for each of its "
            f"{pointers} inputs and outputs{longs}; SIZES at the end of its parameters stands for sizes"
        )


OnEvent = Callable[[EventHeader, "pyopencl.Event"], None]


class LaunchList:
    """*kernels* for *queue*, which is flushed after every *flush_every* of them; 0: not before the end of the call.

    With *buffers* they are recorded, and ``enqueue`` is one call; ``why_single`` says why not, if the driver refused.
    With *quiet* a call that is not profiled makes no events.
    """

    def __init__(
        self,
        queue: pyopencl.CommandQueue,
        kernels: Sequence[ReadyKernel],
        flush_every: int = 0,
        buffers: CommandBuffers | None = None,
        quiet: EventFreeLaunches | None = None,
    ):
        self.kernels = tuple(kernels)
        self._quiet = quiet
        self._queue, self._flush_every = queue, flush_every
        self._recorded: RecordedKernels | None = None
        self.why_single = ""
        if buffers is not None and self.kernels:
            try:
                self._recorded = RecordedKernels(buffers, queue, [kernel[:3] for kernel in self.kernels])
            except DeviceError as error:
                self.why_single = str(error)

    def __len__(self) -> int:
        return len(self.kernels)

    def enqueue_recorded(self, is_idle: Callable[[], bool]) -> bool:
        """Put all kernels into the queue by one call, if they were recorded; *is_idle*: whether none is in it still.

        Raises DeviceError.
        """
        if self._recorded is None or not (self._recorded.runs_twice or is_idle()):
            return False
        self._recorded.enqueue()
        return True

    @property
    def flushes(self) -> int:
        """How often the queue is flushed between the kernels."""
        return len(self.kernels) // self._flush_every if self._flush_every else 0

    def enqueue(self, cl: ModuleType, on_event: OnEvent | None = None, is_end: bool = False) -> pyopencl.Event | None:
        """Put the kernels into the queue one by one. *on_event* is called with each and its event.

        Gives the event of the last kernel where that *is_end* of the call: one that comes with it costs less than a
        marker behind it. Raises pyopencl's error.
        """
        put, queue, flush_every = cl.enqueue_nd_range_kernel, self._queue, self._flush_every
        quiet = self._quiet if on_event is None else None
        event, marked = None, len(self.kernels) if is_end else 0
        for number, ready in enumerate(self.kernels, start=1):
            if quiet is None or number == marked or not quiet.enqueue(number - 1):  # what was refused, the binding says
                event = put(queue, ready.kernel, ready.global_size, ready.local_size)
                if on_event is not None:
                    on_event(ready.header, event)
            if flush_every and number % flush_every == 0:
                queue.flush()
        return event if is_end else None
