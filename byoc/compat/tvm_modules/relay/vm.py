"""``relay.vm.compile``: an executable for the virtual machine. Source: ``tvm.relay.backend.vm``."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.compat.tvm_modules.relay.build_module import compile_module, unsized_inputs, with_params
from byoc.compat.tvm_modules.runtime.vm import Executable
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import post_order


def is_dataflow(func: Function) -> bool:
    """Whether *func* is a graph of calls of operators, composites and regions, which can be compiled as it is."""
    plain = (Call, Constant, Function, GlobalVar, Op, Tuple, TupleGetItem, Var)
    for node in post_order(func.body):
        if not isinstance(node, plain):
            return False
        if isinstance(node, Call) and isinstance(node.op, (Var, Call, TupleGetItem)):
            return False
        if isinstance(node, Call) and isinstance(node.op, Function) and "Composite" not in node.op.attrs:
            return False
    return True


def compile(
    mod: IRModule | RelayExpr,
    target: object = None,
    target_host: object = None,
    params: Mapping[str, object] | None = None,
) -> Executable:
    """The executable of *mod* with *params* bound. Source: ``relay.vm.compile``.

    Raises CompileError for what a codegen refuses.
    """
    ready = infer_module(with_params(mod, params))  # type: ignore[arg-type]
    regions = all("Compiler" in f.attrs for v, f in ready.functions.items() if v.name_hint != "main")  # type: ignore[attr-defined]
    main: Function = ready["main"]  # type: ignore[assignment]
    if regions and is_dataflow(main) and not unsized_inputs(main):
        return Executable(compile_module(ready), ready)
    return Executable(None, ready)
