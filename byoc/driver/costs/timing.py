"""Functions built alone and timed in turns: each warm, each turn in another order, the least of the turns kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.base.progress import Progress, silent
from byoc.errors import UserError
from byoc.ir.expr import BaseFunc, GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.partition.costs.model import HOST_BACKEND, backend_of
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Var
from byoc.runtime.core.device_work import timed_to_the_end
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.graph.executor_base import Executor
from byoc.runtime.library import Library

# a module that has been typed, with its regions as functions -> what runs it; raises UserError where that cannot be
Build = Callable[[IRModule], Library]
Run = Callable[[], object]
Clock = Callable[[], float]
SYMBOL = "byoc_candidate"


@dataclass(frozen=True)
class Turns:
    """How long to measure: so many rounds, in each of which a function runs for about so many seconds."""

    rounds: int = 7
    seconds: float = 0.003
    most: int = 1000


TURNS = Turns()


def as_module(function: Function, target: str) -> IRModule:
    """The module whose ``main`` is *function*, on the host, or a region of *target* that is called with its inputs."""
    plain = Function(function.params, function.body)
    if backend_of(target) == HOST_BACKEND:
        return infer_module(IRModule({"main": plain}))
    region = plain.with_attr("Compiler", target).with_attr("global_symbol", SYMBOL).with_attr("Primitive", 1)
    params = [Var(p.name_hint, p.checked_type) for p in function.params]
    symbol = GlobalVar(SYMBOL)
    functions: dict[GlobalVar | str, BaseFunc] = {"main": Function(params, Call(symbol, params)), symbol: region}
    return infer_module(IRModule(functions))


def ready(
    function: Function, target: str, build: Build, threads: int | None = None, mod: IRModule | None = None
) -> Run:
    """A call that runs *function* on *target* on random inputs. Raises UserError where it cannot be built or run.

    *mod* is the module that holds it, where it is not all of it one region.
    """
    executor: Executor = build(as_module(function, target) if mod is None else mod).executor(threads)
    for seed, param in enumerate(function.params):
        for name, ty in _inputs_of(param):
            executor.set_input(name, argument_for(ty, seed))
    executor.run()
    return executor.run


def _inputs_of(param: Var) -> list[tuple[str, Type]]:
    """The inputs that a parameter becomes: of a tuple each tensor by its number."""
    if isinstance(param.checked_type, TensorType):
        return [(param.name_hint, param.checked_type)]
    return [(f"{param.name_hint}.{k}", ty) for k, ty in enumerate(tensor_types(param.checked_type))]


def argument_for(ty: Type, seed: int = 0) -> NDArray:
    """Random numbers of type *ty*: in [-1, 1) for floats, 0 or 1 for integers.

    Raises UserError for what is not a tensor of static shape.
    """
    if not isinstance(ty, TensorType) or not ty.is_static or ty.dtype == "string":
        raise UserError(f"an argument that is measured is a tensor of numbers of known shape, got {ty!r}")
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(ty.dtype)
    if np.issubdtype(dtype, np.integer) or dtype.kind == "b":
        return NDArray(rng.integers(0, 2, ty.concrete_shape).astype(dtype))
    return NDArray((2 * rng.random(ty.concrete_shape, "float32") - 1).astype(dtype))


def interleaved(
    runs: Mapping[str, Run],
    turns: Turns = TURNS,
    clock: Clock = time.perf_counter,
    until: float = math.inf,
    progress: Progress = silent,
) -> dict[str, float]:
    """The least seconds of a call of each of *runs* over all turns; each has been called before.

    No turn begins after *until*: what had none by then is not in the result. *progress* is called with each round.
    """
    counts: dict[str, int] = {}
    least: dict[str, float] = {}
    names = list(runs)
    for number in range(turns.rounds):
        progress(f"round {number + 1} of {turns.rounds}")
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            if clock() > until:
                return least
            if name not in counts:
                counts[name] = _repeats(runs[name], turns, clock)
            runs[name]()
            least[name] = min(least.get(name, math.inf), _turn(runs[name], counts[name], clock))
    return least


def _repeats(run: Run, turns: Turns, clock: Clock) -> int:
    seconds = _turn(run, 1, clock)
    return max(1, min(turns.most, round(turns.seconds / max(seconds, 1e-9))))


def _turn(run: Run, count: int, clock: Clock) -> float:
    with timed_to_the_end("a candidate"):
        start = clock()
        for _ in range(count):
            run()
        return (clock() - start) / count
