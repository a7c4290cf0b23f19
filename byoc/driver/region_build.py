"""Regions made modules by their backends; where the user allows it, a region whose backend fails is the host's again.

What a backend's ``compile`` may do (raise anything, give something else than a module, not end) concerns its own region
alone: with ``fallback`` that region's body goes back to where it was called, the host's share is made of it as of the
rest, and a :class:`Fallback` keeps the stage, the exception, the region and its nodes. Source: Paddle Lite's subgraph
engines, which keep the origin program where a graph cannot be converted or built.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from byoc.base.progress import Progress
from byoc.contract.backend import (
    Backend,
    constant_arrays_of,
    constants_by_symbol,
    contradiction,
    keep_constants,
)
from byoc.contract.registration import get_backend
from byoc.driver.losses import RegionLostError, because, host_can, lost, with_advice
from byoc.errors import (
    ByocError,
    CompileError,
    CompilerNotFoundError,
    DeviceError,
    InternalError,
    KernelError,
    PartitionError,
    UnsupportedError,
    UserError,
)
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay import transform
from byoc.relay.expr import Call, Function
from byoc.relay.transform.cut.compiler_functions import RAISED, UNCONVERTED
from byoc.relay.traverse import post_order
from byoc.runtime.core.errors import vendors_failure, vendors_text
from byoc.runtime.core.time_limit import TimeLimitError, bounded
from byoc.runtime.modules.module import OWN, Module, module_class

if TYPE_CHECKING:
    from byoc.driver.half_regions import HalfRegions
    from byoc.driver.later_tuning import RegionSources
    from byoc.runtime.region.record import Fallback

MAX_NODES_NAMED = 3
E = TypeVar("E", bound=Exception)
BackendOptions = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class BuildRequest:
    """How regions are made: the options of the backends, the seconds that one may take, whether the host stands in, and
    what was asked for: what brings regions to half precision, and what keeps how they are made again.
    """

    backend_options: BackendOptions
    timeout: float | None = None
    fallback: bool = False
    halves: HalfRegions | None = None
    sources: RegionSources | None = None


@dataclass(frozen=True)
class BuiltRegions:
    """The module without the regions that are the host's again, the others with their modules, and what was lost."""

    mod: IRModule
    regions: Mapping[GlobalVar, Function]
    modules: list[Module]
    fallbacks: tuple[Fallback, ...] = ()


@contextlib.contextmanager
def advising_fallback() -> Iterator[None]:
    """Have the error of a region that its backend's ``optimize`` cannot change say that the host could compute it."""
    try:
        yield
    except PartitionError as error:
        region = vars(error).pop(UNCONVERTED, None)
        if isinstance(region, Function) and host_can(region):
            with_advice(error)
        raise


def build_regions(mod: IRModule, request: BuildRequest, progress: Progress) -> BuiltRegions:
    """The modules of the regions of the partitioned *mod*.

    Raises RegionLostError for a region that its backend cannot make, unless the host may and can compute it.
    """
    regions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
    made: dict[GlobalVar, Module] = {}
    fallbacks = []
    for var, region in regions.items():
        progress(f"compiling {var.name_hint}")
        try:
            with lost(var, region):
                made[var] = compile_region(var, region, request)
        except RegionLostError as error:
            if not request.fallback or not error.host_can:
                raise
            record = _record(region, error)
            fallbacks.append(record)
            progress(f"the host computes {var.name_hint}, since {record.target} {record.why}")
    gone = [var for var in regions if var not in made]
    if gone:
        mod = transform.InlineCompilerFunctionsBoundTo(gone)(mod)
    kept = {var: region for var, region in regions.items() if var in made}
    return BuiltRegions(mod, kept, list(made.values()), tuple(fallbacks))


def region_module(var: GlobalVar, region: Function, request: BuildRequest) -> Module:
    """:func:`compile_region`, with advice in the error for a region that the host can compute."""
    try:
        with lost(var, region):
            return compile_region(var, region, request)
    except RegionLostError as error:
        raise error.for_user(request.fallback) from error.error.__cause__


def compile_region(var: GlobalVar, region: Function, request: BuildRequest) -> Module:
    """The module of a region. Raises CompileError naming backend and region for whatever goes wrong in a backend."""
    name = str(region.attrs["Compiler"])
    backend: Backend = get_backend(name)
    options = request.backend_options.get(name, {})
    if UNCONVERTED in region.attrs:
        raise _failure(CompileError, var, region, str(region.attrs[UNCONVERTED]))

    with _failures(var, region, backend):
        lowered = region if request.halves is None else request.halves.lowered(region, backend, options)
        module = _in_time(lambda: backend.compile(lowered, options), request.timeout)
    _check_module(var, region, module)
    if request.sources is not None:

        def again(more: Mapping[str, object]) -> Module:
            with _failures(var, region, backend):
                made = backend.compile(lowered, {**options, **more})
            _check_module(var, region, made)
            return made

        request.sources.add(module, backend, again)
    return module


@contextlib.contextmanager
def _failures(var: GlobalVar, region: Function, backend: Backend) -> Iterator[None]:
    """Have what *backend* raises while it compiles *region* name both."""
    from byoc.runtime.region.record import running

    try:
        with running(f"backend {backend.name!r} compiled {_place(var, region)}"):
            yield
    except (CompilerNotFoundError, DeviceError):
        raise
    except BaseException as raised:  # whatever a vendor's code raises
        error = vendors_failure(raised)
        kind = InternalError if isinstance(error, InternalError) else CompileError
        text = str(error) if isinstance(error, (ByocError, TimeLimitError)) else vendors_text(error)
        if isinstance(error, (UnsupportedError, KernelError)):
            raise contradiction(backend, region, text) from raised
        raise _failure(kind, var, region, text) from raised


def _check_module(var: GlobalVar, region: Function, module: object) -> None:
    """Raises CompileError for what is no module of the region, or one that cannot work."""
    name, symbol = str(region.attrs["Compiler"]), str(region.attrs["global_symbol"])

    def mistake(what: str, wrong: str) -> CompileError:
        """The error of a module: *what* of it, for this region, is *wrong*."""
        sentence = f"backend {name!r}{what} for {_place(var, region)}{wrong}"
        return because(CompileError(sentence), f"backend {name!r}{what}{wrong}")

    if not isinstance(module, Module):
        raise mistake(f" gave {type(module).__name__}", "; its compile must return a byoc.runtime.Module")
    if isinstance(module.symbols, str):
        raise mistake(
            ": symbols of its module",
            f" is the text {module.symbols!r}, expected a sequence of names, as in self.symbols = ({symbol!r},)",
        )
    if symbol not in module.symbols:
        known = ", ".join(module.symbols) or "nothing"
        raise mistake(
            ": symbols of its module", f" has {known}, expected the region's name, as in self.symbols = ({symbol!r},)"
        )
    if type(module).get_function is Module.get_function and "get_function" not in vars(module):
        raise mistake(
            f": {type(module).__name__}, the class of its module",
            ", has no method get_function(self, name, query_imports=False), which gives what runs a symbol: write it",
        )
    if module.type_key in OWN and not isinstance(module, module_class(module.type_key)):
        raise mistake(
            ": its module",
            f" has the type_key {module.type_key!r} of a module of byoc itself, which would load it: choose another, "
            f"as {name!r}",
        )
    _check_constants(name, module)


def _in_time(work: Callable[[], Module], seconds: float | None) -> Module:
    """What *work* gives. Raises TimeLimitError when it takes longer than *seconds*; it is then left where it is."""
    from byoc.ir.passes.carried import carried

    if seconds is None:
        return work()
    try:
        return bounded(carried(work), seconds)
    except TimeLimitError as error:
        raise TimeLimitError(f"its compile {error}, which compile_timeout allows") from None


def _failure(kind: type[E], var: GlobalVar, region: Function, cause: str) -> E:
    """The error of a backend that failed on a region."""
    backend = str(region.attrs["Compiler"])
    return because(kind(f"backend {backend!r} failed on {_place(var, region)}: {cause}"), cause)


def _place(var: GlobalVar, region: Function) -> str:
    """A region for a message: its name, and the first ONNX nodes in it, or operators where it is of no ONNX model."""
    kind, names = "nodes", span_names(region.span) or span_names(region.body.span)
    if not names:
        found = [node.op.name for node in post_order(region) if isinstance(node, Call) and isinstance(node.op, Op)]
        kind, names = "operators", tuple(dict.fromkeys(found))
    more = ", ..." if len(names) > MAX_NODES_NAMED else ""
    return var.name_hint + (f" ({kind} {', '.join(names[:MAX_NODES_NAMED])}{more})" if names else "")


def _check_constants(backend: str, module: Module) -> None:
    """Look at the constants that *module* gives; numpy's arrays among them become ours."""
    try:
        arrays = constant_arrays_of(module)
        if arrays:
            keep_constants(module, arrays)
    except UserError as error:
        raise CompileError(f"backend {backend!r}: {error}") from error
    try:
        needed = constants_by_symbol(module)
    except CompileError as error:
        raise CompileError(f"backend {backend!r}: {error}") from error
    for symbol, names in needed.items():
        missing = [name for name in names if name not in arrays]
        if missing:
            raise CompileError(
                f"backend {backend!r}: the module of {symbol} asks for the constant {missing[0]!r}, which it does not "
                "give; put it in the module's constant_arrays"
            )


def _record(region: Function, lost: RegionLostError) -> Fallback:
    """What is kept of a region that is the host's again: its nodes, and the error without them."""
    from byoc.runtime.region.record import CONVERT, DEVICE, Fallback, compile_stage

    loss, error = lost.loss, lost.error
    if UNCONVERTED in region.attrs:
        stage, raised = CONVERT, str(region.attrs[RAISED])
    else:
        refused = isinstance(error.__cause__, (UnsupportedError, KernelError))
        stage = CONVERT if refused else compile_stage(error)
        raised = type(error.__cause__ or error).__name__
        if isinstance(error, DeviceError):
            stage = DEVICE
    symbol = str(region.attrs["global_symbol"])
    return Fallback(symbol, loss.target, stage, raised, loss.cause, loss.nodes, ())
