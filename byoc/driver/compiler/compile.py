"""From a model to a library: import, simplify, plan, cut, compile each share, assemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from byoc.base.progress import Progress, silent
from byoc.contract.options import check_option_targets, checked_options
from byoc.driver.assembly import assemble, described, origins, output_names
from byoc.driver.bytecode.control import external, with_externs, with_parts
from byoc.driver.compiler.integers import host_integers, region_integers, simplified
from byoc.driver.compiler.module_plan import (
    Model,
    accelerators,
    named_targets,
    not_slower,
    plan_module,
    read_plan,
    target_alone,
)
from byoc.driver.compiler.region_sizes import at_places, in_halves, with_given_sizes
from byoc.driver.compiler.tuners import tuner_for, with_tuner
from byoc.driver.host import HostProgram, check_inputs, lower_host
from byoc.driver.host_functions import work_of_functions
from byoc.driver.losses import RegionLostError, unavailable
from byoc.driver.model import input_defaults_of, module_of
from byoc.driver.options import CompileRequest, PlanRequest
from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import check_pass_names, host_layout, prepare_host
from byoc.driver.precision import (
    FP16,
    HALVES,
    INT8,
    LEFT_TO_TARGETS,
    HostProducts,
    ProductPrecision,
    host_products,
    with_precision,
)
from byoc.driver.region_build import BuildRequest, advising_fallback, build_regions
from byoc.errors import (
    PartitionError,
    UserError,
)
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.ir.passes.verification import check_made
from byoc.options.declaration import configuration, finish, part_of
from byoc.partition.calls import known_names
from byoc.partition.options import PlacingOptions
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.runtime.content import FIXED_INPUTS
from byoc.runtime.core.strict_json import list_of
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from byoc.driver.losses import Loss

if TYPE_CHECKING:  # what few compilations ask for is imported where they do
    from byoc.driver.compiler.target_quantization import TargetQuantization
    from byoc.driver.half_regions import GivenHalves, HalfCalibration
    from byoc.driver.later_tuning import RegionSources
    from byoc.relay.transform.half_operands import Beyond

MAX_NODES_NAMED = 3


@dataclass(frozen=True)
class TimeLimits:
    """Seconds that a backend may take for a region: ``compiling`` it, and each time that it runs, ``running`` it."""

    compiling: float | None = None
    running: float | None = None


@dataclass(frozen=True)
class CompileOptions:
    """How to cut and compile.

    ``placing`` says where operators go. With ``replan`` a target that fails, or is not on this machine, is planned
    without; with ``fallback`` the library also has the host's version of each region. ``backend_options`` are handed to
    the backends by name. ``shapes`` fixes free dimensions of inputs. ``precision`` is what the host's products compute
    in, and regions where their backends do; ``beyond`` is what stays in float32 there, ``given`` what others
    were given in float16. ``pipeline`` are the passes, where they are not those that byoc has. ``sources`` keeps how
    regions are made again, where they are to be tuned later.
    """

    targets: Sequence[str] = ("c",)
    shapes: Mapping[str, Sequence[int | str]] | None = None
    placing: PlacingOptions = PlacingOptions()
    backend_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    precision: ProductPrecision = ProductPrecision()
    replan: bool = False
    fallback: bool = False
    pipeline: Pipeline | None = None
    limits: TimeLimits = TimeLimits()
    beyond: Beyond | None = None
    given: GivenHalves | None = None
    sources: RegionSources | None = None

    def plan(self, mod: IRModule, model: Model = None, progress: Progress = silent) -> Plan:
        """The plan of a simplified module; *model* is what it was read from."""
        return plan_module(mod, self.targets, self.placing, model, progress)

    def regions(self) -> BuildRequest:
        """How the regions' modules are made, once."""
        request = BuildRequest(self.backend_options, self.limits.compiling, self.fallback, sources=self.sources)
        return in_halves(request, self.beyond, given=self.given) if self.precision.products == FP16 else request


def compile_model(asked: CompileRequest) -> Library:
    """What ``byoc.compile`` gives, compiled whatever is in the cache."""
    with PassContext.current().with_config(configuration(asked)), advising_fallback():
        library = _compile_model(asked)
    if asked.overridable:
        library.set_input_defaults(input_defaults_of(asked.model, asked.overridable))
    finish(asked, library)
    return library


def _compile_model(asked: CompileRequest) -> Library:
    progress = asked.progress or silent
    checked = checked_options(asked.backend_options or {})
    tuner = tuner_for(asked.tune, checked, progress)
    options = CompileOptions(
        asked.target_list(),
        asked.shapes,
        PlacingOptions(**part_of(asked, PlacingOptions)),
        with_tuner(checked, tuner, asked.tune),
        ProductPrecision.of(asked.precision, asked.keep_f32, asked.calibration),
        asked.replan,
        asked.fallback,
        asked.pipeline,
        TimeLimits(asked.compile_timeout or None, asked.region_timeout or None),
        sources=_sources() if asked.tune_later else None,
    )
    check_pass_names(asked.pipeline)
    plans = asked.policy != "order" or asked.exclude or asked.prefer or asked.configuration
    if asked.plan is not None and not asked.replan and plans:
        raise PartitionError(
            "exclude, policy, prefer and configuration make a plan, and one is given: leave them or the plan out"
        )
    progress("reading the model")
    mod = with_externs(with_parts(module_of(asked.model, asked.shapes, asked.overridable)))
    if asked.plan is not None and external(mod):
        raise PartitionError(
            "a plan made before is not taken for a model with control flow, whose parts are planned one by one "
            "when it is compiled: leave plan= out, and say with policy, exclude and prefer what goes where"
        )
    progress("simplifying the graph")
    given = None if asked.plan is None else read_plan(asked.plan)
    if given is None:
        targets: Sequence[str] = accelerators(named_targets(options.targets, options.placing, asked.model))
    else:
        targets = given.targets
    made = [f.attrs.get("Compiler", "") for f in mod.functions.values() if isinstance(f, Function)]  # cut before
    check_option_targets(checked, (*targets, *filter(None, map(str, made))))
    mod = simplified(mod, targets, options.pipeline, options.precision.products)
    quantized = quantized_for(mod, targets, options, progress)
    mod, options = quantized.mod, quantized.options
    progress("planning")
    if given is None:
        plan = options.plan(mod, asked.model, progress)
        alone = target_alone(mod, options.placing, asked.model)
        plan = not_slower(plan, asked.costs, lambda plan: cut_and_build(mod, plan, options, progress), progress, alone)
    else:
        plan = given
    library = cut_and_build(mod, plan, options, progress)
    if quantized.by is not None:
        quantized.by.check(library)
    if tuner is not None and tuner.tunes:
        library.report["tuning"] = {**tuner.report.to_json(), "text": tuner.report.text()}
    if options.sources is not None:
        options.sources.serve(library)
    return library


def _sources() -> RegionSources:
    from byoc.driver.later_tuning import RegionSources

    return RegionSources()


@dataclass(frozen=True)
class QuantizedModule:
    """A simplified module with what its targets take as integers, where *by* made them, and the options for it, whose
    samples can be read again.
    """

    mod: IRModule
    options: CompileOptions
    by: TargetQuantization | HalfCalibration | None = None


def options_of(asked: PlanRequest) -> CompileOptions:
    """The options for what *asked* plans."""
    precision = ProductPrecision.of(asked.precision, asked.keep_f32, asked.calibration)
    return CompileOptions(asked.target_list(), precision=precision, pipeline=asked.pipeline)


def quantized_for(
    mod: IRModule, targets: Sequence[str], options: CompileOptions, progress: Progress = silent
) -> QuantizedModule:
    """The simplified *mod* as precision ``int8`` quantizes it for those of *targets* that declare integers.

    Raises UserError where one needs samples and has none, and for an unknown name in ``keep_f32``.
    """
    precision = options.precision
    precision.check(known_names(mod))
    if precision.products == FP16:
        return _halved(_ranged(mod, options, progress), targets, progress)
    if precision.products != INT8:
        return QuantizedModule(mod, options)
    from byoc.driver.compiler.target_quantization import target_quantization

    by = target_quantization(precision.calibration, precision.keep_f32, targets)
    if not by.applies(mod):
        return QuantizedModule(mod, options)
    progress("quantizing what the targets take")
    mod = by.quantized(mod, lambda probe: build_host(probe, options, progress))
    return QuantizedModule(mod, replace(options, precision=replace(precision, calibration=by.calibration)), by)


def _ranged(mod: IRModule, options: CompileOptions, progress: Progress) -> QuantizedModule:
    """The simplified *mod* with options that say what stays in float32: what the user says, and what samples show."""
    from byoc.driver.half_regions import half_calibration
    from byoc.relay.transform.half_operands import Beyond

    precision = options.precision
    if precision.calibration is None or precision.calibration.samples is None:
        return QuantizedModule(mod, replace(options, beyond=Beyond(keep=precision.keep_f32)))
    by = half_calibration(precision.calibration, precision.keep_f32)
    progress("finding what leaves the range of float16")
    beyond = by.observed(mod, lambda probe: build_host(probe, options, progress))
    return QuantizedModule(mod, replace(options, beyond=beyond), by)


def _halved(ranged: QuantizedModule, targets: Sequence[str], progress: Progress) -> QuantizedModule:
    """*ranged* with calls on float16 for those of *targets* that declare it."""
    from byoc.driver.compiler.vendor_halves import halved, takers

    options = ranged.options
    vendors = takers(targets, options.backend_options)
    if not vendors or options.beyond is None:
        return ranged
    progress("giving float16 to the targets that declare it")
    mod, given = halved(ranged.mod, targets, vendors, options.beyond)
    return replace(ranged, mod=mod, options=replace(options, given=given))


def cut_and_build(mod: IRModule, plan: Plan, options: CompileOptions, progress: Progress = silent) -> Library:
    """Cut the simplified *mod* by *plan* and build it, where *options* allow without the targets that fail."""
    losses: list[Loss] = []
    while True:
        missing = next(unavailable(plan), None) if options.replan else None
        if missing is not None:
            losses.append(missing)
            plan = _without(mod, plan, missing, options, progress)
            continue
        try:
            with advising_fallback():
                cut = check_made(plan.apply(mod), "the cut", PassContext.current().config)
            library = _build(cut, plan, options, progress)
        except RegionLostError as error:
            if not options.replan:
                raise error.for_user(options.fallback) from error.error.__cause__
            losses.append(error.loss)
            plan = _without(mod, plan, error.loss, options, progress)
            continue
        if losses:
            library.report["replanned"] = [loss.to_json() for loss in losses]
        return library


def _without(mod: IRModule, plan: Plan, loss: Loss, options: CompileOptions, progress: Progress) -> Plan:
    progress(f"planning again without {loss.target}: {loss.error}")
    if plan.origin is None:  # it was read from a file
        plan = plan_module(mod, [*plan.targets, "host"], options.placing)
    return plan.without({loss.target: loss.reason})


def build(mod: IRModule, plan: Plan, options: CompileOptions, progress: Progress = silent) -> Library:
    """Compile every share of the partitioned *mod* and assemble the library.

    Raises CompileError for what a share cannot hold: control flow, an input of unknown size, what a backend refuses.
    """
    try:
        return _build(mod, plan, options, progress)
    except RegionLostError as error:
        raise error.for_user(options.fallback) from error.error.__cause__


def _build(mod: IRModule, plan: Plan, options: CompileOptions, progress: Progress) -> Library:
    """:func:`build`, but a region that fails raises RegionLostError."""
    check_inputs(as_function(mod["main"]))
    request = at_places(plan, options.regions(), options.beyond)
    built = build_regions(with_given_sizes(region_integers(mod)), request, progress)
    mod, regions, modules = built.mod, built.regions, built.modules
    progress("compiling the host's share")
    host_options = options.backend_options.get("c", {})
    narrow = host_products(options.precision)
    starting = {symbol for module in modules if module.can_start for symbol in module.symbols}
    if options.given is not None and options.given.cast:
        from byoc.driver.compiler.widened_host import widened

        mod = widened(mod, options.given.cast, options.given.constants)
    main = host_main(mod, plan, options, narrow, progress)
    host = lower_host(main, {**regions, **external(mod)}, starting)
    modules.extend(host.functions.modules(host_options))
    plan = plan.with_stand_ins({lost.subgraph: lost.why for lost in built.fallbacks})
    plan = with_precision(plan, narrow.outcomes)
    entries = report(main, plan if request.halves is None else request.halves.decided(plan), host)
    if request.halves is not None:
        entries[HALVES] = request.halves.to_report()
    left = narrow.left_to_targets(built.regions.values())
    if left:
        entries[LEFT_TO_TARGETS] = left
    if external(mod):
        from byoc.driver.bytecode.control_modules import control_modules, summaries

        deciding = control_modules(mod, lambda part: compile_part(part, options, progress))
        modules.extend(deciding)
        entries["control_flow"] = summaries(deciding)
    if options.fallback:
        progress("compiling the host's versions of the regions")
        stand_ins, entries["fallback"] = origins(regions, host_options, options.pipeline)
        modules.extend(stand_ins)
    if built.fallbacks:
        entries["fallbacks"] = [lost.to_json() for lost in built.fallbacks]
    work = work_of_functions(regions, host.functions)
    root = assemble(modules, described(regions, options.limits.running), built.fallbacks, work)
    if regions:
        from byoc.driver.region_report import region_deviations, region_memory

        entries["regions"] = region_memory(root)
        deviations = region_deviations(root)
        if deviations:
            entries["deviations"] = deviations
    return narrow.add_report(Library(host.graph, root, output_names(main, host.outputs), entries))


def compile_part(mod: IRModule, options: CompileOptions, progress: Progress = silent) -> Library:
    """The library of a part of a model, a branch or a loop's body: planned and built as the model is.

    A plan that was given is one for ``main`` alone. Integers that need samples stay floats here: a part has none.
    """
    progress("compiling a part of the control flow")
    products = options.precision.products
    if products == INT8:
        options = replace(options, precision=ProductPrecision())
    targets = accelerators(named_targets(options.targets, options.placing, None))
    mod = simplified(mod, targets, options.pipeline, options.precision.products)
    return cut_and_build(mod, options.plan(mod), options, progress)


def build_host(mod: IRModule, options: CompileOptions, progress: Progress = silent) -> Library:
    """The simplified *mod* compiled for the host alone, in float32."""
    return build(mod, Plan("order", (), "default", ()), CompileOptions(pipeline=options.pipeline), progress)


def host_main(
    mod: IRModule, plan: Plan, options: CompileOptions, narrow: HostProducts, progress: Progress = silent
) -> Function:
    """The host's share of the partitioned *mod*: quantized where *narrow* says so, lowered and fused."""
    plain = CompileOptions(pipeline=options.pipeline)
    mod = host_integers(mod, options.precision.products == INT8)
    mod = narrow.quantized(mod, lambda probe: build(probe, plan, plain, progress))
    layout = host_layout(options.backend_options.get("c", {}))
    main = prepare_host(layout, narrow.passes(), options.pipeline)(mod)["main"]
    assert isinstance(main, Function)
    return main


def report(main: Function, plan: Plan, host: HostProgram) -> dict[str, object]:
    """What the artefact records about how it was made: the plan as data and as text, why host functions run on numpy
    kernels, why the model runs node by node, where it does, of which size it computes item by item, and which inputs of
    the model became constants.
    """
    entries: dict[str, object] = {
        "plan": plan.to_json(),
        "plan_text": str(plan),
        "host_fallbacks": dict(host.functions.fallback_reasons),
    }
    if host.functions.node_by_node is not None:
        entries["node_by_node"] = host.functions.node_by_node
    if host.functions.batch:
        entries["item_by_item"] = host.functions.batch
    if main.attrs.get(FIXED_INPUTS):
        entries[FIXED_INPUTS] = list(map(str, list_of(main.attrs[FIXED_INPUTS], FIXED_INPUTS)))
    return entries


__all__ = ["CompileOptions", "UserError", "assemble", "build", "compile_model", "cut_and_build"]
