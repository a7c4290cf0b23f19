"""The modules of a library below one root, which owns their constants; the host's version of each region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.contract.signature import signature_of
from byoc.contract.verdict import callee_name
from byoc.driver.host import lower_host
from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import host_layout, prepare_host
from byoc.errors import ByocError, InternalError
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.ir.types import tensor_types
from byoc.relay import transform
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.core.function_work import FunctionWork
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import list_of
from byoc.runtime.modules.metadata import MetadataModule, content_of
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.runtime.origin import OriginModule
    from byoc.runtime.region.record import Fallback, Region


def assemble(
    modules: Sequence[Module],
    regions: Mapping[str, Region] | None = None,
    fallbacks: Sequence[Fallback] = (),
    work: Mapping[str, FunctionWork] | None = None,
) -> MetadataModule:
    """The modules below one metadata module, which owns each distinct constant once, whatever it is called.

    *regions* are the symbols that backends compiled, *fallbacks* those that they could not; *work* says what functions
    compute.
    """
    stored: dict[str, NDArray] = {}
    keys: dict[tuple[str, str, tuple[int, ...]], str] = {}
    needs: dict[str, list[str]] = {}
    for module in modules:
        arrays = module.constant_arrays
        for symbol, names in module.constants().items():
            needs[symbol] = []
            for name in names:
                array = arrays[name]
                key = keys.setdefault(content_of(array), name)
                stored.setdefault(key, array)
                needs[symbol].append(key)
    entries = {
        symbol: _with_constants(region, stored, needs.get(symbol, ())) for symbol, region in (regions or {}).items()
    }
    root = MetadataModule(stored, needs, entries, fallbacks, work)
    for module in modules:
        root.import_module(module)
    return root


def output_names(main: Function, outputs: int) -> list[str]:
    """What the model of *main* calls its outputs, or numbers so many by."""
    named = list_of(main.attrs.get("output_names") or (), "output_names")
    return [str(n) for n in named] or [f"output{k}" for k in range(outputs)]


def _with_constants(region: Region, arrays: Mapping[str, NDArray], names: Sequence[str]) -> Region:
    """*region* with the constants in its signature, to which those of a loaded file are held."""
    if region.signature is None:
        return region
    specs = tuple(TensorSpec(name, arrays[name].shape, arrays[name].dtype) for name in names)
    return replace(region, signature=replace(region.signature, constants=specs))


# The host's version of each region, where the user allows it: the region's function with its composites dissolved,
# compiled as the host's share is, but in the region's own types and untuned, under a symbol of its own
# (``runtime/origin.py``). The runtime takes it when the region's backend fails.

HOST, AVAILABLE = "c", "the host's version is in the artefact"


def described(regions: Mapping[GlobalVar, Function], seconds: float | None = None) -> dict[str, Region]:
    """The regions by their symbols, as the runtime knows them; a run of one may take *seconds*."""
    return {str(f.attrs["global_symbol"]): _described(f, seconds) for f in regions.values()}


def _described(region: Function, seconds: float | None) -> Region:
    from byoc.runtime.region.record import Region

    calls = [node for node in post_order(region.body, dataflow_children) if isinstance(node, Call)]
    operators = tuple(dict.fromkeys(callee_name(call) for call in calls))
    symbol = str(region.attrs["global_symbol"])
    signature = signature_of(symbol, infer_function(region), {})
    return Region(str(region.attrs["Compiler"]), tuple(span_names(region.span)), operators, signature, seconds)


def origins(
    regions: Mapping[GlobalVar, Function], options: Mapping[str, object], chosen: Pipeline | None = None
) -> tuple[list[OriginModule], dict[str, str]]:
    """The host's versions of the accelerators' *regions*, and for each region a sentence: it has one, or why not.

    *options* are those of backend c, *chosen* the pipeline where somebody edited it.
    """
    made: list[OriginModule] = []
    stand_ins: dict[str, str] = {}
    for function in regions.values():
        symbol = str(function.attrs["global_symbol"])
        if function.attrs["Compiler"] == HOST:
            continue
        try:
            made.append(origin(function, options, chosen))
            stand_ins[symbol] = AVAILABLE
        except InternalError:
            raise
        except ByocError as error:  # an operator that only the vendor has
            stand_ins[symbol] = f"the host has no version of it: {error}"
    return made, stand_ins


def origin(region: Function, options: Mapping[str, object], chosen: Pipeline | None = None) -> OriginModule:
    """The host's version of *region*. Raises CompileError for what the host cannot run."""
    from byoc.driver.json_functions import compile_json

    symbol = str(region.attrs["global_symbol"])
    options = {name: value for name, value in options.items() if name != "tune"}
    plain = Function(region.params, region.body, region.declared_ret_type, region.type_params, None, region.span)
    mod = transform.InlineComposites(HOST)(IRModule.from_expr(plain))
    main = mod["main"]
    assert isinstance(main, Function)
    signature = signature_of(symbol, main, {})
    if not all(ty.is_symbolic for param in main.params for ty in tensor_types(param.checked_type)):
        return _assembled(signature, None, [compile_json({symbol: main}, {})])
    host = lower_host(as_function(prepare_host(host_layout(options), chosen=chosen)(mod)["main"]), {})
    return _assembled(signature, host.graph, host.functions.modules(options))


def _assembled(signature: Signature, graph: Mapping[str, object] | None, modules: list[Module]) -> OriginModule:
    """The module, whose constants have names that no other module's have."""
    from byoc.runtime.origin import OriginModule

    root = assemble(modules)
    name_of = {name: f"{signature.symbol}_origin_{name}" for name in root.constant_arrays}
    needs = {symbol: [name_of[name] for name in names] for symbol, names in root.needs.items()}
    arrays = {name_of[name]: array for name, array in root.constant_arrays.items()}
    return OriginModule(signature, graph, needs, modules, arrays)
