"""Building a small module to be timed: its regions by their backends, its host's share as any host's, and nothing else.

No plan is made and nothing is reported; constants are given as they are, without a search for equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contract.backend import constant_arrays_of
from byoc.contract.registration import get_backend
from byoc.driver.host import check_inputs, lower_host
from byoc.driver.pipeline import optimize, prepare_host
from byoc.driver.precision import ProductPrecision, host_products
from byoc.errors import ByocError, CompileError
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.library import Library
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module

PRECISIONS = {"": "f32", "float32": "f32", "bfloat16": "bf16"}  # of the host's products


def build_alone(mod: IRModule, precision: str = "") -> Library:
    """The library of *mod*: ``main`` and regions. *precision* is a dtype, that of the host's products.

    Raises CompileError for whatever goes wrong in a backend, UserError for what the host cannot compile.
    """
    mod = optimize(mod)
    check_inputs(as_function(mod["main"]))
    regions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
    modules = [_region(region) for region in regions.values()]
    if precision not in PRECISIONS:
        raise CompileError(f"the host's products are not measured in {precision}; known: {', '.join(PRECISIONS)[2:]}")
    narrow = host_products(ProductPrecision.of(PRECISIONS[precision], ()))
    main = as_function(prepare_host(precision=narrow.passes())(mod)["main"])
    host = lower_host(main, regions)
    modules += host.functions.modules({})
    return Library(host.graph, _root(modules), [f"output{k}" for k in range(host.outputs)])


def _region(region: Function) -> Module:
    name = str(region.attrs["Compiler"])
    try:
        return get_backend(name).compile(region, {})
    except ByocError:
        raise
    except Exception as error:  # whatever a vendor's code raises
        raise CompileError(f"backend {name!r} failed: {type(error).__name__}: {error}") from error


def _root(modules: Sequence[Module]) -> MetadataModule:
    """The modules below one that gives each its constants."""
    stored: dict[str, NDArray] = {}
    needs: dict[str, list[str]] = {}
    for number, module in enumerate(modules):
        arrays = constant_arrays_of(module)
        for symbol, names in module.constants().items():
            needs[symbol] = [f"{number}.{name}" for name in names]
            stored.update({f"{number}.{name}": arrays[name] for name in names})
    root = MetadataModule(stored, needs)
    for module in modules:
        root.import_module(module)
    return root
