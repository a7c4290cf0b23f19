"""The metadata module: the root of a library's tree.

It owns every constant once, whatever number of symbols use it, and gives each symbol its constants once, on first use,
from any number of threads. Nobody writes to them: their arrays are read-only. Source: TVM's
ConstLoaderModule, whose place it takes. A symbol that is a region of the
model is called through its guard, which knows what stands in for it (``region/``).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.function_work import FunctionWork, functions_from_json
from byoc.runtime.core.ndarray import NDArray, read_only
from byoc.runtime.core.signature import TensorSpec, symbol_of
from byoc.runtime.core.strict_json import at, list_of, mapping_of, read_json, texts_of
from byoc.runtime.modules.module import Members, Module, PackedFunction

if TYPE_CHECKING:
    import numpy as np

    from byoc.runtime.region.guard import RegionGuard
    from byoc.runtime.region.locked import Lock
    from byoc.runtime.region.record import Fallback, Region

REGIONS_MEMBER, NEEDS_MEMBER = "regions.json", "constants.json"
FALLBACKS_MEMBER, WORK_MEMBER = "fallbacks.json", "work.json"


class MetadataModule(Module):
    """Constants by key, for each symbol the keys that it needs, and the modules that have the symbols.

    *regions* are the symbols that backends compiled; a module below may stand in for them (``Module.stands_for``).
    *fallbacks* are regions that backends could not compile, which the host's share holds; *work* says of symbols what
    they compute, for profiles.

    Raises ArtifactError when a symbol needs a constant that is not there.
    """

    type_key = "metadata"
    thread_safe = True

    def __init__(
        self,
        constants: Mapping[str, NDArray],
        needs: Mapping[str, Sequence[str]],
        regions: Mapping[str, Region] | None = None,
        fallbacks: Sequence[Fallback] = (),
        work: Mapping[str, FunctionWork] | None = None,
    ):
        super().__init__()
        self.work = dict(work or {})
        self.regions = dict(regions or {})
        self._compiled_fallbacks = tuple(fallbacks)
        self.constant_arrays = {key: read_only(array) for key, array in constants.items()}
        self.needs = {symbol: tuple(keys) for symbol, keys in needs.items()}
        for symbol, keys in self.needs.items():
            missing = [k for k in keys if k not in self.constant_arrays]
            if missing:
                raise ArtifactError(f"symbol {symbol!r} needs the constant {missing[0]!r}, which is not there")
        self._owners: dict[str, Module] = {}
        self._stand_ins: dict[str, str] = {}
        self._guards: dict[str, RegionGuard] = {}
        self._ready: set[str] = set()
        self._initializing: dict[str, Lock] = {}
        self._seconds: dict[str, float] = {}  # of the symbols that have constants
        self._sets_of_sizes = 0  # for which modules are to stay ready
        self._lock = new_rlock()

    def keep_more_sizes(self, count: int) -> None:
        """Have the modules below keep what is made for each set of input sizes for *count* sets more."""
        self._sets_of_sizes += count
        for module in self.walk():
            module.keep_sizes(self._sets_of_sizes)

    def import_module(self, module: Module) -> None:
        """Hang *module* below. Raises UserError when it has a symbol that another module has already."""
        for inner in module.walk():
            for symbol in inner.symbols:
                if symbol in self._owners:
                    raise UserError(f"two modules have a function {symbol!r}; give one region another name")
                self._owners[symbol] = inner
            self._stand_ins.update({symbol: own for own, symbol in inner.stands_for.items()})
        super().import_module(module)

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, each counted once."""
        return sum(a.nbytes for a in self.constant_arrays.values())

    def owner(self, symbol: str) -> Module | None:
        """The module below that has *symbol*."""
        return self._owners.get(symbol)

    def constants(self) -> Mapping[str, Sequence[str]]:
        return self.needs

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        """The function *name* of a module below, its constants given; None where there is none.

        A region's function runs what stands in for it where its module cannot be loaded, initialised or launched;
        where nothing does, that is an error which names the region, its nodes and the stage.
        """
        from byoc.runtime.region.function import RegionFunction

        owner = self._owners.get(name)
        if owner is None:
            return None
        if name in self.regions:
            return RegionFunction(self.guard(name))
        self.ensure_initialized(name)
        return owner.get_function(name)

    def guard(self, symbol: str) -> RegionGuard:
        """What guards the region *symbol*: one object for all executors. Raises KeyError for another symbol."""
        with self._lock:
            if symbol not in self._guards:
                self._guards[symbol] = self._new_guard(symbol)
            return self._guards[symbol]

    def _new_guard(self, symbol: str) -> RegionGuard:
        from byoc.runtime.modules.lost_module import load_function
        from byoc.runtime.region.guard import RegionGuard
        from byoc.runtime.region.locked import lock_of

        owner, own = self._owners[symbol], self._stand_ins.get(symbol)

        def load() -> PackedFunction:
            return load_function(owner, symbol, self.ensure_initialized, ask=own is not None)

        def constants() -> dict[str, np.ndarray]:
            with self._lock:
                return {key: self.constant_arrays[key].numpy() for key in self.needs.get(symbol, ())}

        lock = None if owner.thread_safe else lock_of(owner.type_key)
        if own is None:
            return RegionGuard(symbol, self.regions[symbol], load, lock=lock, constants=constants)
        signature = self._owners[own].signatures[own]  # type: ignore[attr-defined]  # an OriginModule, which imports this
        return RegionGuard(symbol, self.regions[symbol], load, lambda: self[own], signature, lock, constants)

    @property
    def fallbacks(self) -> list[Fallback]:
        """What is, and what ran, on the host instead, so far: region by region, in the order of their first use."""
        sources = [*self._guards.values(), *self.imports]  # those of a module are of the parts of control flow
        return [*self._compiled_fallbacks, *(record for s in sources for record in getattr(s, "fallbacks", ()))]

    def ensure_initialized(self, symbol: str) -> None:
        """Give *symbol* its constants unless it has them; a region without constants is given none, once."""
        if symbol in self._ready:
            return
        with self._lock:  # for no longer than that: what a vendor does may take its time, or not end
            lock = self._initializing.setdefault(symbol, new_rlock())
        with lock:  # in which another module's kernels may have come (``exchange_kernels``)
            if symbol not in self._ready:
                keys = self.needs.get(symbol, ())
                if keys or symbol in self.regions:
                    start = time.perf_counter()
                    self._owners[symbol].initialize(symbol, [self.constant_arrays[k] for k in keys])
                    self._seconds[symbol] = time.perf_counter() - start
                self._ready.add(symbol)

    def exchange_kernels(self, module: Module, other: Module) -> Callable[[], None]:
        """What has *module*, one below, compute as *other* does from the next calls on, with the constants of *other*.

        As :meth:`OnDevice.exchange`, which it asks *module* for. Constants that nobody needs any more are let go of.
        """
        switch = module.exchange(other)
        names = {content_of(array): name for name, array in self.constant_arrays.items()}
        new: dict[str, NDArray] = {}
        needs: dict[str, tuple[str, ...]] = {}
        for symbol, wanted in other.constants().items():
            for name in wanted:
                content = content_of(other.constant_arrays[name])
                if content not in names:
                    names[content] = _fresh(name, {*self.constant_arrays, *new})
                    new[names[content]] = read_only(other.constant_arrays[name])
            needs[symbol] = tuple(names[content_of(other.constant_arrays[name])] for name in wanted)

        def exchanged() -> None:
            with contextlib.ExitStack() as held:
                with self._lock:
                    locks = [self._initializing.setdefault(symbol, new_rlock()) for symbol in sorted(needs)]
                for lock in locks:
                    held.enter_context(lock)
                held.enter_context(self._lock)
                switch()
                arrays = {**self.constant_arrays, **new}
                self.needs.update(needs)
                needed = {key for keys in self.needs.values() for key in keys}
                self.constant_arrays = {key: array for key, array in arrays.items() if key in needed}
                self._ready.update(needs)
                for symbol in needs:
                    self._describe_anew(symbol)

        return exchanged

    def _describe_anew(self, symbol: str) -> None:
        """Have the region *symbol*, if it is one, say which constants it takes now."""
        region = self.regions.get(symbol)
        if region is None or region.signature is None:
            return
        arrays = ((key, self.constant_arrays[key]) for key in self.needs[symbol])
        specs = tuple(TensorSpec(key, array.shape, array.dtype) for key, array in arrays)
        self.regions[symbol] = replace(region, signature=replace(region.signature, constants=specs))
        if symbol in self._guards:
            self._guards[symbol].region = self.regions[symbol]

    def initialize_all(self) -> None:
        """Load and initialise every module below now; a region whose backend fails is then the host's, or an error."""
        for symbol in self._owners:
            if symbol in self.regions:
                guard = self.guard(symbol)
                try:
                    guard.function()
                except Exception as error:  # whatever a vendor's code raises
                    guard.failed((), error)
            elif symbol not in self._stand_ins.values():
                self.ensure_initialized(symbol)

    @property
    def initialization(self) -> list[dict[str, object]]:
        """What has been initialised so far: each module's type and symbols, and the seconds that it took."""
        spent = dict(self._seconds)
        spent.update({s: g.initialize_seconds for s, g in self._guards.items() if g.initialize_seconds is not None})
        entries = []
        for k, module in enumerate(self.imports):
            symbols = [symbol for symbol in module.symbols if symbol in spent]
            if symbols:
                seconds = sum(spent[symbol] for symbol in symbols)
                entries.append({"module": k, "type": module.type_key, "symbols": symbols, "seconds": round(seconds, 6)})
        return entries

    def save(self) -> dict[str, bytes]:
        """The tables of needs, regions and work; the constants are the artefact's ``weights.safetensors``."""
        members = {NEEDS_MEMBER: json.dumps({s: list(k) for s, k in self.needs.items()}, indent=1).encode()}
        if self.regions:
            regions = {symbol: region.to_json() for symbol, region in self.regions.items()}
            members[REGIONS_MEMBER] = json.dumps(regions, indent=1).encode()
        if self._compiled_fallbacks:
            members[FALLBACKS_MEMBER] = json.dumps([f.to_json() for f in self._compiled_fallbacks], indent=1).encode()
        if self.work:
            work = {symbol: function.to_json() for symbol, function in self.work.items()}
            members[WORK_MEMBER] = json.dumps(work, indent=1).encode()
        return members

    def arrays(self) -> Mapping[str, NDArray]:
        return self.constant_arrays

    @classmethod
    def restore(cls, members: Members, arrays: Mapping[str, NDArray], below: Sequence[Module]) -> MetadataModule:
        """The module from its saved table, the constants and its modules. Raises ArtifactError when one is missing."""
        module = cls.with_constants(members, arrays)
        for child in below:
            module.import_module(child)
        return module

    @classmethod
    def load(cls, members: Members) -> Module:
        raise ArtifactError("a metadata module is loaded together with its constants: use byoc.runtime.load")

    @classmethod
    def with_constants(cls, members: Members, constants: Mapping[str, NDArray]) -> MetadataModule:
        """The module from its saved table and the constants. Raises ArtifactError when one is missing."""
        from byoc.runtime.region.record import Fallback, Region

        listed = read_json(members[REGIONS_MEMBER], REGIONS_MEMBER) if REGIONS_MEMBER in members else {}
        regions = {
            symbol_of(symbol, REGIONS_MEMBER): Region.from_json(data, at(REGIONS_MEMBER, symbol))
            for symbol, data in mapping_of(listed, REGIONS_MEMBER).items()
        }
        needs = mapping_of(read_json(members[NEEDS_MEMBER], NEEDS_MEMBER), NEEDS_MEMBER)
        lost = list_of(read_json(members.get(FALLBACKS_MEMBER, b"[]"), FALLBACKS_MEMBER), FALLBACKS_MEMBER)
        fallbacks = [Fallback.from_json(data, f"{FALLBACKS_MEMBER}[{k}]") for k, data in enumerate(lost)]
        needed = {s: texts_of(names, at(NEEDS_MEMBER, s)) for s, names in needs.items()}
        work = functions_from_json(read_json(members.get(WORK_MEMBER, b"{}"), WORK_MEMBER), WORK_MEMBER)
        return cls(constants, needed, regions, fallbacks, work)


def content_of(array: NDArray) -> tuple[str, str, tuple[int, ...]]:
    """What makes two constants one: hash, dtype and shape."""
    return hashlib.sha256(memoryview(array.numpy().tobytes())).hexdigest(), array.dtype, array.shape


def _fresh(name: str, taken: Collection[str]) -> str:
    """*name*, or with a number where it is *taken*."""
    numbers = itertools.count(1)
    fresh = name
    while fresh in taken:
        fresh = f"{name}_tuned{next(numbers)}"
    return fresh
