"""The options of ``byoc.testing.certify``, and of ``byoc certify`` over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.contract.backend import Backend
from byoc.options.declaration import Flag, Keyed, Options, described, option
from byoc.testing.core.difference import parse_tolerances


@dataclass(frozen=True)
class CertifyRequest(Options):
    """What ``byoc.testing.certify`` is asked for."""

    backend: str | Backend = field(metadata=described("the backend: the name under which it is registered, or itself"))
    only: Sequence[str] = option(
        (),
        "the operators, patterns or kinds of cases to try, with * for any letters; without it, all",
        flag=Flag("--only", metavar="NAME", many=True, read=tuple, note="repeat it for more"),
    )
    skip: Sequence[str] = option(
        (),
        "checks to leave out, by their names in the certificate: 'same bytes' for a backend that says it is not "
        "deterministic",
        flag=Flag("--skip", metavar="CHECK", many=True, read=tuple, note="repeat it for more"),
    )
    seed: int = option(0, "of the numbers in the samples' inputs", least=0, flag=Flag("--seed", metavar="N"))
    seconds: float | None = option(
        None,
        "how long it may take; what was not reached is reported as untried, and the certificate says that it is "
        "unfinished",
        flag=Flag("--time", metavar="SECONDS", read=float, note="default: as long as it takes"),
    )
    models: Sequence[str | os.PathLike[str]] = option(
        (),
        "ONNX models that are compiled for the backend and compared too",
        flag=Flag("--model", metavar="FILE", many=True, read=tuple, note="repeat it for more"),
    )
    tolerance: Mapping[str, float] | None = option(
        None,
        "by dtype, the part of the largest magnitude by which floats may be off, and the number by which integers may",
        flag=Flag("--tolerance", metavar="DTYPE=NUMBER", many=True, read=parse_tolerances),
    )
    precision: str = option(
        "f32",
        "what the backend's products are asked to compute in; fp16 adds to the tolerance of each case with a product "
        "what its operators may make of rounded operands",
        choices=("f32", "fp16"),
        flag=Flag("--precision"),
    )
    backend_options: Mapping[str, object] | None = option(None, "what the backend's compile is given as its options")
    speed: bool = option(
        False, "measure an operator's first sample, and the models, against the host alone", flag=Flag("--speed")
    )
    saved: bool = option(True, "save each case, and load it in another process", flag=Flag("--saved"))
    cases: str | os.PathLike[str] | None = option(
        None,
        "a folder into which the smallest case of each failure is written",
        flag=Flag("--cases", metavar="FOLDER", note="default: FILE.cases, with -o; byoc bisect --replay runs them"),
    )
    case_seconds: float = option(
        120.0,
        "how long a step of a case (compiling it, one run of it) may take, and ten times that a step of a model; then "
        "it is reported as crashed",
        flag=Flag("--case-time", metavar="SECONDS"),
    )
    workers: int = option(
        0,
        "processes in which cases are tried side by side; 0 is one for every processor, at most eight",
        least=0,
        flag=Flag("--workers", metavar="N"),
    )
    progress: Callable[[str], object] | None = option(
        None, "a function that is called with what is tried next", key=Keyed.APART
    )
