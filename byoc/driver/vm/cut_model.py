"""A model cut by a plan, for the virtual machine: what has control flow, which the graph executor does not run."""

from __future__ import annotations

from byoc.contract.options import check_option_targets, checked_options
from byoc.driver.bytecode.control import without_externs
from byoc.driver.compiler.plan import simplify_and_plan
from byoc.driver.options import CompileRequest, PlanRequest
from byoc.driver.vm.compile import compile_module, region_targets
from byoc.ir.passes.transform import PassContext
from byoc.options.declaration import configuration, options_of
from byoc.partition.costs.model import HOST_BACKEND
from byoc.runtime.vm.executable import Executable


def compile_for_vm(asked: CompileRequest) -> Executable:
    """The executable of a model for its targets: planned as ``byoc.plan`` does, regions by their backends.

    Of the options, those of the plan count, and ``backend_options``, ``precision``, ``keep_f32``, ``tune`` and
    ``fallback``. Raises as ``byoc.plan`` and :func:`compile_module`.
    """
    with PassContext.current().with_config(configuration(asked)):
        return _compiled(asked)


def _compiled(asked: CompileRequest) -> Executable:
    known = {declared.name for declared in options_of(CompileRequest)}
    shared = {d.name: getattr(asked, d.name) for d in options_of(PlanRequest) if d.name in known}
    mod, plan = simplify_and_plan(PlanRequest(**shared))
    if asked.progress is not None:
        asked.progress("compiling for the virtual machine")
    cut = without_externs(plan.apply(mod))
    given = checked_options(asked.backend_options or {})
    check_option_targets(given, plan.targets)
    used = (*region_targets(cut), HOST_BACKEND)
    return compile_module(
        cut,
        {name: options for name, options in given.items() if name in used},
        precision=asked.precision,
        keep_f32=asked.keep_f32,
        tune=asked.tune,
        fallback=asked.fallback,
    )
