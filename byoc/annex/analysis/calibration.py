"""What goes into and comes out of each region when a partitioned module runs: the data for calibrating accelerators.

Source: ``relay.analysis.get_calibration_data``.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Tuple
from byoc.relay.interpreter import Value, evaluate
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray, from_any

RegionData = dict[str, list[NDArray]]


def get_calibration_data(mod: IRModule, data: Mapping[str, object]) -> dict[GlobalVar, RegionData]:
    """For each region that main calls, its ``inputs`` and ``outputs`` as lists of arrays, when main runs on *data*.

    Tuples are flattened. The reference interpreter runs main, once. Raises UserError where a region is called more than
    once, InputError for data that does not fit.
    """
    main = mod["main"]
    if not isinstance(main, Function):
        raise UserError("calibration needs a module whose main is a function of the graph language")
    calls = _region_calls(mod, main)
    watched: list[RelayExpr] = [Tuple([*call.args, call]) for call in calls.values()]
    probe = mod.shallow_copy()
    probe["main"] = Function(main.params, Tuple(watched))
    values = evaluate(infer_module(probe), data)
    assert isinstance(values, list)
    found: dict[GlobalVar, RegionData] = {}
    for var, row in zip(calls, values, strict=True):
        assert isinstance(row, list)
        *inputs, output = row
        found[var] = {"inputs": [a for value in inputs for a in _arrays(value)], "outputs": _arrays(output)}
    return found


def _region_calls(mod: IRModule, main: Function) -> dict[GlobalVar, Call]:
    calls: dict[GlobalVar, Call] = {}
    for node in post_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, GlobalVar) and "Compiler" in as_function(mod[node.op]).attrs:
            if node.op in calls:
                raise UserError(f"{node.op.name_hint} is called more than once: its data would be mixed up")
            calls[node.op] = node
    return calls


def _arrays(value: Value) -> list[NDArray]:
    if isinstance(value, list):
        return [array for item in value for array in _arrays(item)]
    return [NDArray(from_any(value))]
