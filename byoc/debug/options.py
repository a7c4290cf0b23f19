"""The options of ``byoc.bisect`` and ``byoc.compare``, and of the commands over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from byoc.driver.options import HostOptions, ModelOptions
from byoc.options.declaration import Flag, Keyed, Options, described, like, option
from byoc.options.texts import parse_targets
from byoc.testing.core.difference import parse_tolerances

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from byoc.ir.module import IRModule
    from byoc.runtime.library import Library
INTERPRETER, ONNXRUNTIME = "interpreter", "onnxruntime"


@dataclass(frozen=True, kw_only=True)
class InputOptions(Options):
    """On what is run, and what is right."""

    inputs: Mapping[str, np.ndarray] | None = option(None, "arrays by the names of inputs; others are seeded")
    sizes: Mapping[str, int] | None = option(None, "of free dimensions, for seeded inputs; 1 where it is not given")
    seed: int = option(0, "of the inputs that are not given", least=0, flag=Flag("--seed", metavar="N"))
    tolerance: Mapping[str, float] | None = option(
        None,
        "by dtype, the part of a tensor's largest magnitude by which floats may be off, and the number by which "
        "integers may",
        flag=Flag("--tolerance", metavar="DTYPE=NUMBER", many=True, read=parse_tolerances),
    )
    snr: float | None = option(
        None,
        "the signal-to-noise ratio in dB below which a tensor is wrong, whatever its type; integers are held to 30 "
        "unless a tolerance is given",
        flag=Flag("--snr", metavar="DB", read=float),
    )
    precision: str = option(
        "f32",
        "what the model's products are asked to compute in; fp16 allows float32 what is allowed float16, unless a "
        "tolerance is given",
        choices=("f32", "fp16"),
        flag=Flag("--precision"),
    )
    keep_f32: Sequence[str] = like(HostOptions, "keep_f32", ())
    progress: Callable[[str], object] | None = option(
        None, "a function that is called with what is done next", key=Keyed.APART
    )


def as_asked(options: Options) -> dict[str, Any]:
    """How the model of *options* is read and in what it computes, as ``byoc.compile`` and ``byoc.plan`` take it."""
    return {name: getattr(options, name) for name in ("shapes", "pipeline", "precision", "keep_f32")}


@dataclass(frozen=True)
class BisectRequest(InputOptions, ModelOptions):
    """What ``byoc.bisect`` is asked for."""

    model: str | os.PathLike[str] | bytes | ModelProto | IRModule = field(
        metadata=described("an ONNX file, its bytes, a ModelProto, or a module of the graph language")
    )
    targets: Sequence[str] | str = option(
        ("c",),
        "for what the model is, as of byoc.compile",
        flag=Flag("--target", short="-t", metavar="NAME", many=True, read=parse_targets),
    )
    reference: str = option(
        INTERPRETER,
        "what is right, of the whole model and of each part: interpreter (numpy's kernels in float64), onnxruntime, or "
        "the name of another backend",
        flag=Flag("--reference", metavar="NAME"),
    )
    samples: Iterable[Mapping[str, np.ndarray]] = option(
        (),
        "several settings of the inputs, arrays by name, over those of inputs; the one reported is the first that "
        "shows a mistake",
    )
    saved: bool = option(
        False, "save each part, and run it in another process", flag=Flag("--saved", note="for what differs only then")
    )
    part_seconds: float = option(
        120.0,
        "how long compiling a part, or one run of it, may take, and ten times that the whole model; what takes longer "
        "is reported as having no end",
        flag=Flag("--part-time", metavar="SECONDS"),
    )
    case: str | os.PathLike[str] | None = option(
        None,
        "where the operator is written, with its inputs and outputs, as a .npz",
        flag=Flag("--case", metavar="FILE.npz", note="--replay runs it"),
    )

    @property
    def target_names(self) -> list[str]:
        """The targets, as a list."""
        return [self.targets] if isinstance(self.targets, str) else list(self.targets)


@dataclass(frozen=True)
class StatisticsRequest(ModelOptions):
    """What ``byoc.debug.statistics`` is asked for."""

    model: str | os.PathLike[str] | bytes | ModelProto | IRModule | Library = field(
        metadata=described("an ONNX file, its bytes, a ModelProto, a module of the graph language, or a library")
    )
    targets: Sequence[str] | str = option(("c",), "for what a model is compiled, as of byoc.compile")
    inputs: Mapping[str, np.ndarray] | None = option(None, "arrays by the names of inputs; others are seeded")
    sizes: Mapping[str, int] | None = option(None, "of free dimensions, for seeded inputs; 1 where it is not given")
    seed: int = option(0, "of the inputs that are not given", least=0)
    precision: str = like(HostOptions, "precision", "f32")
    keep_f32: Sequence[str] = like(HostOptions, "keep_f32", ())


@dataclass(frozen=True)
class CompareRequest(InputOptions, ModelOptions):
    """What ``byoc.compare`` is asked for."""

    first: str | os.PathLike[str] | bytes | ModelProto | IRModule | Library = field(
        metadata=described("an artefact or a library; or an ONNX model, with two targets")
    )
    second: str | os.PathLike[str] | Library | None = option(None, "another artefact or library")
    targets: Sequence[str] | str = option(
        (),
        "of a model, two backends",
        flag=Flag("--target", short="-t", metavar="NAME", many=True, read=parse_targets, note="of a model, two"),
    )
    vm: bool = option(
        False,
        "compile a model for the virtual machine, which also runs what has control flow; its outputs are compared",
        flag=Flag("--vm"),
    )
    step_seconds: float = option(
        120.0,
        "how long a side may take for one node without a word, and ten times that for compiling it; then it is "
        "reported as having no end",
        flag=Flag("--step-time", metavar="SECONDS"),
    )
