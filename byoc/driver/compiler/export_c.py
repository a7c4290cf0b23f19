"""From an ONNX model to a folder with C that needs no Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from byoc.base.progress import Progress, silent
from byoc.codegen.c.export.options import export_options
from byoc.codegen.c.export.project import ModelNames, export_project
from byoc.codegen.c.export.project import check_inputs as check_sizes
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.tune.tuner import tuner_of
from byoc.contract.options import check_option_targets, checked_options
from byoc.driver.assembly import assemble, output_names
from byoc.driver.compiler.compile import CompileOptions, host_main
from byoc.driver.host import HostProgram, check_inputs, lower_host
from byoc.driver.model import module_of
from byoc.driver.narrow_products import DOT, NarrowProducts
from byoc.driver.options import ExportRequest
from byoc.driver.pipeline import check_pass_names, optimize
from byoc.driver.precision import PrecisionOutcome, ProductPrecision
from byoc.errors import CompileError, UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.options.declaration import configuration
from byoc.options.entry import takes
from byoc.partition.calls import known_names
from byoc.relay.narrowing import as_function
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.graph.graph import Graph
from byoc.runtime.library import Library

MAX_REASONS = 3
MAX_NODES = 8
NARROWED, FP16 = "bf16", "fp16"


class Exported(dict[str, int]):
    """The bytes of each file by its name; *notes* give the products' precision, and why it is not the one asked for."""

    def __init__(self, sizes: Mapping[str, int], notes: Sequence[str]):
        super().__init__(sizes)
        self.notes = tuple(notes)


@takes(ExportRequest, "byoc.export_c")
def export_c(asked: ExportRequest) -> Exported:
    """Write a model as C that needs no Python into *folder*.

    README.txt, and ``notes`` of what is returned, say in what precision the products compute. Of *backend_options*
    those of ``c`` count.

    Returns:
        The bytes of each file by its name.

    Raises:
        UserError: for free dimensions that *shapes* leaves free, for operators without generated C, which it names, and
            for options that do not go together, with one sentence.
    """
    with PassContext.current().with_config(configuration(asked)):
        return _exported(asked)


def _exported(asked: ExportRequest) -> Exported:
    allowed = _c_options(checked_options(asked.backend_options or {}))
    options = export_options(
        asked.symbol, asked.portable, asked.threads, asked.weights, asked.march, WinogradOptions.of(allowed)
    )
    progress = asked.progress or silent
    tuner = tuner_of(asked.tune, progress)
    if tuner.tunes:
        options.check_tuning()
    check_pass_names(asked.pipeline)
    chosen = CompileOptions(backend_options={"c": allowed}, pipeline=asked.pipeline)
    lowered = ProductPrecision.of(asked.precision, asked.keep_f32, asked.calibration)
    if asked.precision == FP16:
        raise UserError("export_c has no fp16: it is for targets with a device; take f32, bf16 or int8")
    if asked.precision == NARROWED:
        options.check_precision(DOT)
    narrow = NarrowProducts(lowered, machine=options.machine)
    path = checked_folder(asked.folder)
    progress("reading the model")
    mod = module_of(asked.model, asked.shapes, asked.overridable)
    progress("simplifying the graph")
    host, named = _host_program(mod, narrow, chosen, progress)
    graph = Graph(host.graph)
    check_sizes(graph)
    _check_functions(host)
    if lowered.calibration is not None and lowered.calibration.samples is not None:
        progress("comparing int8 with f32 on the samples")
        narrow.add_report(Library(host.graph, assemble(host.functions.modules(allowed)), named, {}))
    progress("writing C")
    title = Path(asked.model).name if isinstance(asked.model, (str, os.PathLike)) else "the model"
    notes = _notes(narrow)
    names = ModelNames(title, named, notes)
    files = export_project(host.functions.compiled, graph, names, options, tuner)
    _make_folder(path)
    for name, data in files.items():
        _write(path / name, data)
    return Exported({name: len(data) for name, data in files.items()}, notes)


def checked_folder(folder: str | os.PathLike[str]) -> Path:
    """Where to write. Raises UserError for a place where no folder can be."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: this is a file; name a folder for the C files")
    parent = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not parent.is_dir():
        raise UserError(f"{path}: {parent} is a file, in which no folder can be; choose another")
    if not os.access(parent, os.W_OK):
        raise UserError(f"{path}: the folder {parent} cannot be written; choose another")
    return path


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: the folder cannot be made ({error.strerror}); choose another") from error


def _c_options(backend_options: Mapping[str, Mapping[str, object]]) -> Mapping[str, object]:
    """The options of the generator. Raises UserError for one that is for code that byoc compiles itself."""
    check_option_targets(backend_options, ())
    options = backend_options.get("c", {})
    for name, instead in (("flags", "give them to make as CFLAGS"), ("tune", "use the parameter tune")):
        if name in options:
            raise UserError(f"option {name!r} of backend c is for code that byoc compiles itself: {instead}")
    return options


def _write(path: Path, data: bytes) -> None:
    replace_file(path, lambda file: file.write(data))


def _host_program(
    mod: IRModule, narrow: NarrowProducts, options: CompileOptions, progress: Progress
) -> tuple[HostProgram, list[str]]:
    """The whole model as the host's share, and the names of its outputs."""
    mod = optimize(mod, options.pipeline, narrow.precision.products)
    narrow.precision.check(known_names(mod))
    plan = options.plan(mod)
    cut = plan.apply(mod)
    check_inputs(as_function(cut["main"]))
    main = host_main(cut, plan, options, narrow, progress)
    host = lower_host(main, {})
    return host, output_names(main, host.outputs)


def _notes(narrow: NarrowProducts) -> list[str]:
    """In what the products compute, and why not in what was asked for."""
    counts = Counter(outcome.precision for outcome in narrow.outcomes)
    lines = [f"Products in {precision}: {count}" for precision, count in sorted(counts.items())]
    waiting: dict[str, list[PrecisionOutcome]] = {}
    for outcome in narrow.outcomes:
        if outcome.reason:
            waiting.setdefault(outcome.reason, []).append(outcome)
    lines += [f"  {len(w)} not narrower: {why}: {_named(w)}" for why, w in sorted(waiting.items())]
    errors = narrow.quantization.errors if narrow.quantization else {}
    return [*lines, *(f"int8 changes {n} by {error:.2%} of its size on the samples" for n, error in errors.items())]


def _named(outcomes: Sequence[PrecisionOutcome]) -> str:
    """The nodes that the products come from, of many the first."""
    names = [f"{o.operator} ({', '.join(o.nodes)})" if o.nodes else o.operator for o in outcomes]
    more = [f"and {len(names) - MAX_NODES} more"] if len(names) > MAX_NODES else []
    return ", ".join(names[:MAX_NODES] + more)


def _check_functions(host: HostProgram) -> None:
    """Raises CompileError naming the nodes for which no C is generated."""
    reasons = list(dict.fromkeys(host.functions.fallback_reasons.values()))
    if reasons:
        more = f"; and {len(reasons) - MAX_REASONS} more" if len(reasons) > MAX_REASONS else ""
        raise CompileError(f"the model cannot be C alone: {'; '.join(reasons[:MAX_REASONS])}{more}")
