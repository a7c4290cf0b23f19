"""``byoc.plan``: from a model to its plan, for which nothing is compiled unless costs are measured.

A plan that it makes, changed or not, saved or not, is what ``byoc.compile(plan=...)`` takes.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from byoc.base.progress import Progress, silent
from byoc.driver.bytecode.control import parted
from byoc.driver.compiler.integers import simplified
from byoc.driver.compiler.module_plan import accelerators, named_targets, not_slower, plan_module, target_alone
from byoc.driver.model import module_of
from byoc.driver.options import PRECISIONS, PlanRequest
from byoc.driver.pipeline import check_pass_names
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.options.declaration import configuration
from byoc.options.entry import takes
from byoc.partition.plan.plan import Plan
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from byoc.driver.compiler.compile import CompileOptions, QuantizedModule


@takes(PlanRequest, "byoc.plan")
def plan(asked: PlanRequest) -> Plan:
    """Where each operator of a model goes, and why.

    With policy ``model`` the targets default to the devices that the model names. With precision ``int8`` the plan is
    that of the model on integers, for which the model runs on the calibration's samples; ``byoc.compile`` takes it with
    the same precision and calibration. With costs that are measured the plan is built and held against the host alone
    and each target alone, the fastest of which is given where it is faster.

    Returns:
        The plan, which ``byoc.compile(plan=...)`` takes, changed or not, saved or not.

    Raises:
        UserError: whatever cannot be planned, in one sentence.
    """
    return simplify_and_plan(asked)[1]


def simplify_and_plan(asked: PlanRequest) -> tuple[IRModule, Plan]:
    """The simplified module that a plan is for, and the plan."""
    with PassContext.current().with_config(configuration(asked)):
        return _simplify_and_plan(asked)


def _simplify_and_plan(asked: PlanRequest) -> tuple[IRModule, Plan]:
    check_pass_names(asked.pipeline)
    progress = asked.progress or silent
    progress("reading the model")
    targets = accelerators(named_targets(asked.target_list(), asked, asked.model))
    mod, options = prepared(asked, targets, progress)
    progress("planning")
    found = plan_module(mod, asked.target_list(), asked, asked.model, progress)

    def build(plan: Plan) -> Library:
        made: Library = _compiler().cut_and_build(mod, plan, options or plan_options(asked), progress)
        return made

    return mod, not_slower(found, asked.costs, build, progress, target_alone(mod, asked, asked.model))


def prepared(
    asked: PlanRequest, targets: Sequence[str], progress: Progress = silent
) -> tuple[IRModule, CompileOptions | None]:
    """The simplified module of *asked*, in its precision for *targets*; and the options that it is compiled with, None
    for the usual ones.
    """
    mod = parted(module_of(asked.model, asked.shapes, asked.overridable))
    mod = simplified(mod, targets, asked.pipeline, asked.precision)
    if asked.precision == PRECISIONS[0] and not asked.keep_f32 and asked.calibration is None:
        return mod, None
    quantized: QuantizedModule = _compiler().quantized_for(mod, targets, plan_options(asked), progress)
    return quantized.mod, quantized.options


def plan_options(asked: PlanRequest) -> CompileOptions:
    """How what *asked* plans is compiled, to be measured or to find ranges."""
    options: CompileOptions = _compiler().options_of(asked)
    return options


def _compiler() -> ModuleType:
    return importlib.import_module("byoc.driver.compiler.compile")  # which few plans need


__all__ = ["plan", "plan_options", "prepared", "simplify_and_plan"]
