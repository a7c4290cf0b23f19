"""The options of ``byoc.compile``, ``byoc.plan`` and ``byoc.export_c``, and of the commands over them.

This is the one place where an option of these functions is declared; what says where operators go is declared in
``byoc/partition/options.py``, and is theirs too. An option is read as a field of the request that it stands in. No part
of the compiler is loaded by this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byoc.errors import UserError
from byoc.options.declaration import Flag, FlagModule, Keyed, Options, configures, described, finishes, option
from byoc.options.texts import parse_shapes, parse_targets
from byoc.partition.options import PLANNING, CutOptions, DeviceOptions, PlacingOptions

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from byoc.codegen.tune.tuner import Tuner
    from byoc.driver.pass_list import Pipeline
    from byoc.driver.quantization import Calibration
    from byoc.ir.module import IRModule
    from byoc.partition.plan.plan import Plan
    from byoc.runtime.library import Library

PRECISIONS = ("f32", "bf16", "fp16", "int8")
TUNE_LEVELS = ("none", "fast", "normal", "wide", "heavy")  # of byoc.codegen.tune.level
UNTUNED = "none"
WEIGHTS = ("c", "incbin", "bin")  # of byoc.codegen.c.export.options
_MODEL = described(
    "an ONNX file, its bytes, a ModelProto, a module, or a program of torch.export: an ExportedProgram or its .pt2 file"
)


@dataclass(frozen=True)
class _ModelAndTargets(Options):
    model: str | os.PathLike[str] | bytes | ModelProto | IRModule = field(metadata=_MODEL)
    targets: Sequence[str] | str = option(
        ("c",),
        "for what the model is, in order of preference; what none of them takes runs on the host, which a last c (or "
        "host) names",
        flag=Flag(
            "--target",
            short="-t",
            metavar="NAME",
            many=True,
            read=parse_targets,
            note="repeat it or separate by commas (default: c)",
        ),
        key=Keyed.APART,
    )

    def target_list(self) -> list[str]:
        """The targets, also where one was named alone."""
        return [self.targets] if isinstance(self.targets, str) else list(self.targets)


@dataclass(frozen=True)
class _ModelAndFolder(Options):
    model: str | os.PathLike[str] | bytes | ModelProto | IRModule = field(metadata=_MODEL)
    folder: str | os.PathLike[str] = field(
        metadata=described("where the files go; it is made where it is missing"),
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """How the model is read and simplified."""

    shapes: Mapping[str, Sequence[int | str]] | None = option(
        None,
        "shapes of inputs by name, which fix free dimensions",
        flag=Flag("--shape", metavar="INPUT=1,3,224,224", many=True, read=parse_shapes),
    )
    overridable: Sequence[str] | str = option(
        (),
        "inputs of the model that have an initialiser and stay inputs: a run may give them, behind the others, else "
        "they have the initialiser's value; those that are not named are constants",
        flag=Flag("--overridable", metavar="INPUT", many=True),
    )
    pipeline: Pipeline | None = option(
        None,
        "the passes, where they are not byoc's own: byoc.pipeline() as somebody edited it",
        flag=FlagModule("byoc.cli.flags.pass_options", commands=PLANNING),
        key=Keyed.DEFAULT,
    )


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions(Options):
    """In what products compute."""

    precision: str = option(
        PRECISIONS[0],
        "what products compute in, the host's where that pays: bf16 with sums in float32; fp16 likewise, on targets "
        "whose device has it; or int8, which takes what "
        "the model quantizes, else what ranges over the calibration allow, also of targets that compute on integers, "
        "else the host's dense products by ranges found when the model runs",
        choices=PRECISIONS,
        flag=Flag("--precision"),
    )
    keep_f32: Sequence[str] = option(
        (),
        "operators and ONNX nodes that stay in f32",
        flag=Flag("--keep-f32", metavar="NAME", many=True),
    )
    calibration: Calibration | Iterable[Mapping[str, np.ndarray]] | None = option(
        None,
        "precision int8 or fp16: samples of the model's inputs by name, or a byoc.Calibration",
        flag=FlagModule("byoc.cli.flags.calibration_options", commands=(*PLANNING, "export-c")),
        key=Keyed.DEFAULT,
    )


@dataclass(frozen=True, kw_only=True)
class HostOptions(PrecisionOptions):
    """How the host's code is made."""

    backend_options: Mapping[str, Mapping[str, object]] | None = option(
        None,
        "options of the backends, by their names",
        flag=FlagModule("byoc.cli.flags.generator_options"),
    )
    tune: str | Tuner = option(
        UNTUNED,
        "how much is tried for fast kernels of the host and of targets that tune; what won is kept in the cache folder",
        choices=TUNE_LEVELS,
        flag=Flag("--tune", commands=("compile", "export-c"), note="none: a cost model decides"),
    )


@dataclass(frozen=True, kw_only=True)
class ProgressOptions(Options):
    """Where progress is reported."""

    progress: Callable[[str], object] | None = option(
        None, "a function that is called with what is done next, in words", key=Keyed.APART
    )


def _label(library: Library, labels: Mapping[str, str]) -> None:
    """Keep *labels* in the report of *library*, which its artefact has too."""
    if not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise UserError(f"labels are texts by names, got {dict(labels)!r}")
    library.report["labels"] = dict(labels)


def _labels_of(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=TEXT`` texts as labels. Raises UserError for another form."""
    for text in texts:
        if "=" not in text.lstrip("="):
            raise UserError(f"--label {text!r}: expected NAME=TEXT")
    return {name: label for name, _, label in (text.partition("=") for text in texts)}


@dataclass(frozen=True, kw_only=True)
class CompileRequest(ProgressOptions, DeviceOptions, CutOptions, HostOptions, ModelOptions, _ModelAndTargets):
    """What ``byoc.compile`` is asked for."""

    labels: Mapping[str, str] | None = finishes(
        _label,
        option(
            None,
            "texts by names that the artefact carries, such as the version of the model: Library.report lists them",
            flag=Flag("--label", metavar="NAME=TEXT", many=True, read=_labels_of, commands=("compile",)),
        ),
    )
    plan: Plan | str | os.PathLike[str] | None = option(
        None,
        "the cut, with the targets in it: a plan of this model or its .json file",
        flag=Flag("--plan", metavar="FILE", commands=("compile",)),
        key=Keyed.DEFAULT,
    )
    replan: bool = option(
        False,
        "plan again without a target that fails when compiling or is not on this machine, down to the host alone; the "
        "report says so",
        flag=Flag("--replan", commands=("compile",)),
    )
    fallback: bool = configures(
        "byoc.keep_unconverted",
        option(
            False,
            "have the host compute a region whose backend fails: when it is compiled, in its place; when it is loaded, "
            "initialised or run, by the host's version of it, which is put in as well; Library.fallbacks lists them",
            flag=Flag("--fallback", commands=("compile",)),
        ),
    )
    compile_timeout: float = option(
        0.0,
        "the seconds that a backend may take to compile one region; 0 for as long as it takes",
        least=0,
        flag=Flag("--compile-timeout", metavar="SECONDS", commands=("compile",)),
    )
    tune_later: bool = option(
        False,
        "keep in memory what Library.tune_in_background needs: the regions of targets that tune, with their weights",
    )
    region_timeout: float = option(
        0.0,
        "the seconds that a backend's region may take in a run; then the run ends, or goes on without that backend "
        "where the host stands in; 0 for as long as it takes",
        least=0,
        flag=Flag("--region-timeout", metavar="SECONDS", commands=("compile",)),
    )


@dataclass(frozen=True, kw_only=True)
class PlanRequest(ProgressOptions, PlacingOptions, PrecisionOptions, ModelOptions, _ModelAndTargets):
    """What ``byoc.plan`` is asked for."""


@dataclass(frozen=True, kw_only=True)
class ExportRequest(ProgressOptions, HostOptions, ModelOptions, _ModelAndFolder):
    """What ``byoc.export_c`` is asked for."""

    symbol: str = option(
        "model",
        "with what the names of files and of functions begin",
        flag=Flag("--symbol-prefix", metavar="NAME"),
    )
    portable: bool = option(False, "C99 without extensions, for any compiler and processor", flag=Flag("--portable"))
    threads: bool = option(
        False, "also a function by which threads of the user's share one run", flag=Flag("--threads")
    )
    weights: str = option(
        "",
        "the weights as arrays in C, as a file that the assembler includes, or as a file for which the caller gives "
        "memory; without it c, or incbin for more than 4 MiB that are not portable",
        choices=WEIGHTS,
        flag=Flag("--weights"),
    )
    march: str = option(
        "native",
        "the processor that the code is for, as the C compiler calls it; native: this one",
        flag=Flag("--march", metavar="NAME"),
    )
