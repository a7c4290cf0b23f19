"""The runtime module of generated OpenCL: source and launch plans, built for the device when first used.

Saved as ``kernels.cl`` and ``plan.json``; loading needs no device, running does. pyopencl is imported on first use.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.errors import ArtifactError, InputError, UserError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import ALIGNMENT, NDArray
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.devices.peak import Peak
from byoc.runtime.dso.whole_program import check_contract, contract_text, digest_of
from byoc.runtime.executors.prepared_inputs import ones
from byoc.runtime.modules.module import Members, Module, PackedFunction
from byoc.runtime.modules.on_device import OnDevice
from byoc.runtime.opencl.build import build_program, why_unavailable
from byoc.runtime.opencl.commands.options import RunOptions
from byoc.runtime.opencl.counts import DeviceCounts, summed
from byoc.runtime.opencl.device_memory import place_buffers
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.launches import PLAN_VERSION, FunctionPlan, plans_from_json, run_options_from_json
from byoc.runtime.opencl.peaks import device_peak
from byoc.runtime.opencl.process import driver_use
from byoc.runtime.opencl.session import Named, Session
from byoc.runtime.region.call import Pending
from byoc.runtime.region.checks import CallChecks
from byoc.runtime.region.device_tensor import DeviceTensor
from byoc.runtime.region.variants import ChosenVariants

if TYPE_CHECKING:
    from byoc.runtime.opencl.checked_function import CheckedFunction

SOURCE_MEMBER = "kernels.cl"
PLAN_MEMBER = "plan.json"


class OpenCLModule(Module):
    """Functions that run on an OpenCL device; any number of threads may call them.

    ``constant_arrays`` (name to array) are used where no constants were given; they are not saved here.
    """

    type_key = "opencl"
    thread_safe = True
    can_start = True

    def __init__(
        self,
        source: str,
        plans: Sequence[FunctionPlan],
        constant_arrays: Mapping[str, NDArray] | None = None,
        options: RunOptions | None = None,
    ):
        super().__init__()
        self._source = source
        self.options = options or RunOptions()
        self.constant_arrays: dict[str, NDArray] = dict(constant_arrays or {})
        self._plans = {plan.signature.symbol: plan for plan in plans}
        self.symbols = tuple(self._plans)
        self._given: dict[str, tuple[NDArray, ...]] = {}
        self._sessions: dict[str, Session] = {}
        self._kept = 0  # sets of sizes for which more is to be kept than usual
        self._counts = {symbol: DeviceCounts() for symbol in self.symbols}
        self._events: list[DeviceEvent] | None = None  # of the device, while somebody profiles
        self._lock = new_lock()

    @property
    def plans(self) -> tuple[FunctionPlan, ...]:
        """The launch plans, one a symbol."""
        return tuple(self._plans.values())

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What each symbol takes and gives."""
        return {symbol: plan.signature for symbol, plan in self._plans.items()}

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name not in self._plans:
            return super().get_function(name, query_imports)
        return DeviceFunction(functools.partial(self.session, name), functools.partial(self._checked, name))

    def get_source(self, fmt: str = "") -> str:
        """The OpenCL C, or with ``plan`` or ``json`` the launch plans."""
        return self._plan_text() if fmt in ("plan", "json") else self._source

    @property
    def variants(self) -> tuple[ChosenVariants, ...]:
        """The kernels that were chosen so far, by symbol and sizes."""
        with self._lock:
            sessions = list(self._sessions.values())
        return tuple(chosen for session in sessions for chosen in list(session.chosen.values()))

    @property
    def counts(self) -> Mapping[str, int]:
        """What was asked of the device so far (:class:`DeviceCounts`), by name, over all symbols and threads."""
        return summed(self._counts.values())

    def counts_of(self, symbol: str) -> Mapping[str, int]:
        """As ``counts``, of one function."""
        return summed([self._counts[symbol]])

    def keep_sizes(self, count: int) -> None:
        with self._lock:
            self._kept = max(self._kept, count)
            sessions = list(self._sessions.values())
        for session in sessions:
            session.bindings.keep(self._kept)

    def run_with(self, options: RunOptions) -> None:
        """Run as *options* say from now on: on another device, or with other queues."""
        with self._lock:
            self.options = options
            self._sessions.clear()

    def memory(self, symbol: str) -> Mapping[str, int]:
        """The device's memory for inputs, outputs and temporaries, and what no plan can do without, in bytes.

        Nothing is reported for sizes that are free, and a device that aligns buffers to more takes a little more.
        """
        plan = self._plans[symbol]
        if plan.signature.size_names:
            return {}
        placement = place_buffers(plan, plan.buffer_bytes({}), ALIGNMENT)
        return {"device_memory": placement.total, "device_memory_bound": placement.bound}

    def peak(self) -> Peak:
        return device_peak(open_device(self.options.device))

    def region_notes(self, symbol: str) -> Sequence[str]:
        return self._plans[symbol].notes

    def profile(self, on: bool) -> Sequence[DeviceEvent]:
        with self._lock:
            events = list(self._events or ())
            if on and self._events is not None:
                self._events.clear()
            else:
                self._events = [] if on else None
                self._sessions.clear()  # the next calls make others, whose queues keep times or do not
        return events

    def unavailable(self) -> str | None:
        return why_unavailable(self.options.device)

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {symbol: tuple(c.name for c in plan.signature.constants) for symbol, plan in self._plans.items()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return self._plans[symbol].signature.constants

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Give *symbol* its constants, which go to the device with its first call. Raises InputError for others."""
        specs = self._plans[symbol].signature.constants
        found = [(tuple(c.shape), c.dtype) for c in constants]
        if found != [(s.shape, s.dtype) for s in specs]:
            wanted = ", ".join(f"{s.name}: {s.dtype}{s}" for s in specs) or "none"
            raise InputError(f"{symbol}: expected the constants {wanted}, got {found}")
        with self._lock:
            self._given[symbol] = tuple(constants)
            self._sessions.pop(symbol, None)

    def exchange(self, other: OnDevice) -> Callable[[], None]:
        if not isinstance(other, OpenCLModule):
            raise UserError(f"an OpenCL module takes the kernels of another one, got a {type(other).__name__}")
        mine, others = ({s: (p.inputs, p.outputs) for s, p in m.signatures.items()} for m in (self, other))
        if mine != others:
            raise UserError(f"other kernels for {', '.join(self.symbols)} must take and give what these do")
        with self._lock:
            options, kept, old = self.options, self._kept, dict(self._sessions)
        if options.device != other.options.device:
            raise UserError(
                f"{', '.join(self.symbols)} runs on the device {options.device!r} by now, and kernels come for "
                f"{other.options.device!r}: give them before it is sent to another"
            )
        known = {symbol: [key[0] for key in session.bindings.keys()] for symbol, session in old.items()}
        other._counts, other.options, other._kept = self._counts, options, kept
        for symbol in self.symbols:
            other.warm(symbol, known.get(symbol, ()))

        def switch() -> None:
            with self._lock:
                self._source, self._plans, self.constant_arrays = other._source, other._plans, other.constant_arrays
                self._given = {s: tuple(other._constants_of(s)) for s in self.symbols}
                is_as_before = self.options == options and self._kept == kept and self._events is None
                self._sessions = dict(other._sessions) if is_as_before else {}

        return switch

    def warm(self, symbol: str, known: Iterable[Named] = ()) -> None:
        """Build *symbol*, and run it on ones for each of the *known* sizes, which takes memory. Raises DeviceError.

        A function without free sizes is run in any case.
        """
        session, signature = self.session(symbol), self._plans[symbol].signature
        for sizes in map(Sizes, dict.fromkeys([*known, *([] if signature.size_names else [()])])):
            with contextlib.suppress(InputError):  # ones are no inputs of some functions
                session(*(ones(spec, spec.concrete_shape(sizes)) for spec in (*signature.inputs, *signature.outputs)))

    def session(self, symbol: str) -> Session:
        """What runs *symbol*, made when it is first used. Raises DeviceError, and InputError without its constants."""
        found = self._sessions.get(symbol)
        if found is not None:
            return found  # which looks itself whether this is a child of its process
        driver_use().require_own_process()
        with self._lock:
            if symbol not in self._sessions:
                constants = self._constants_of(symbol)
                opened = open_device(self.options.device)
                program = build_program(self._source, opened)
                on_times = None if self._events is None else self._events.extend
                counts, plan = self._counts[symbol], self._plans[symbol]
                counts.programs += 1
                self._sessions[symbol] = Session(plan, program, opened, constants, on_times, counts, self.options)
                self._sessions[symbol].bindings.keep(self._kept)
            return self._sessions[symbol]

    def _checked(self, symbol: str, checks: CallChecks) -> CheckedFunction:
        """*symbol*, one launch after the other under *checks*. Raises DeviceError, InputError without its constants."""
        from byoc.runtime.opencl.checked_function import CheckedFunction

        driver_use().require_own_process()
        constants = [c.numpy() for c in self._constants_of(symbol)]
        opened = open_device(self.options.device)
        return CheckedFunction(self._plans[symbol], build_program(self._source, opened), opened, constants, checks)

    def _constants_of(self, symbol: str) -> Sequence[NDArray]:
        if symbol in self._given:
            return self._given[symbol]
        specs = self._plans[symbol].signature.constants
        missing = [s.name for s in specs if s.name not in self.constant_arrays]
        if missing:
            raise InputError(f"{symbol} is called before it was given its {len(specs)} constants")
        return [self.constant_arrays[s.name] for s in specs]

    def _plan_text(self) -> str:
        content = {"version": PLAN_VERSION, "functions": [plan.to_json() for plan in self._plans.values()]}
        if self.options != RunOptions():
            content["run"] = self.options.to_json()
        return json.dumps(content, indent=1) + "\n"

    def _contract(self) -> str:
        """The hash of the launch plans, which the saved source carries (``dso/whole_program.py``)."""
        return digest_of([plan.to_json() for plan in self._plans.values()])

    def save(self) -> dict[str, bytes]:
        source = f"// {contract_text(self._contract())}\n{self._source}"
        return {SOURCE_MEMBER: source.encode(), PLAN_MEMBER: self._plan_text().encode()}

    @classmethod
    def load(cls, members: Members) -> OpenCLModule:
        """The module from its members. Raises ArtifactError when one is missing, damaged or of a newer version."""
        for member in (SOURCE_MEMBER, PLAN_MEMBER):
            if member not in members:
                raise ArtifactError(f"an OpenCL module needs the member {member!r}, which is missing")
        try:
            content = read_json(members[PLAN_MEMBER], PLAN_MEMBER)
            head, _, source = bytes(members[SOURCE_MEMBER]).decode().partition("\n")
        except ValueError as error:
            raise ArtifactError(f"the members of an OpenCL module cannot be read: {error}") from error
        module = cls(source, plans_from_json(content, PLAN_MEMBER), options=run_options_from_json(content, PLAN_MEMBER))
        check_contract(head.encode(), module._contract(), "the source of a module of type 'opencl'")
        return module


class DeviceFunction:
    """A symbol, as executors call it: at once, or started and waited for (``region/call.py``)."""

    keeps_time = True

    def __init__(self, session: Callable[[], Session], checked: Callable[[CallChecks], CheckedFunction]):
        self._session, self.with_checks = session, checked

    def __call__(self, *arrays: object) -> None:
        self._session()(*arrays)

    def start(self, arrays: Sequence[np.ndarray | DeviceTensor], after: Sequence[Pending]) -> Pending:
        """Put the call into the device's queue, behind *after*. Raises DeviceError, InputError."""
        result: Pending = self._session().start(arrays, after)
        return result

    def empty_on_device(self, shape: Sequence[int], dtype: np.dtype) -> DeviceTensor:
        """Memory for a tensor that a call is to fill. Raises DeviceError."""
        return self._session().empty_on_device(shape, dtype)

    def to_device(self, array: np.ndarray) -> DeviceTensor:
        """A copy of *array* on the device. Raises DeviceError, RunTimeoutError."""
        made = self._session().empty_on_device(array.shape, array.dtype)
        made.fill(array)
        return made

    @property
    def has_own_memory(self) -> bool:
        """Whether the device's memory is not the host's."""
        return self._session().has_own_memory

    def holds(self, tensor: DeviceTensor) -> bool:
        """Whether *tensor* lies where the function can read it."""
        return self._session().holds(tensor)
