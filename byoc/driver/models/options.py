"""The options of ``byoc.opt`` and ``byoc.lint``, and of the commands over them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byoc.driver.options import ModelOptions, ProgressOptions
from byoc.options.declaration import Flag, Keyed, Options, described, option

if TYPE_CHECKING:
    from onnx import ModelProto

_MODEL = described("an ONNX file, its bytes, or a ModelProto")


@dataclass(frozen=True)
class _ModelAndOutput(Options):
    model: str | os.PathLike[str] | bytes | ModelProto = field(metadata=_MODEL)
    output: str | os.PathLike[str] | None = option(
        None, "the ONNX file to write; it is written whole or not at all", key=Keyed.APART
    )


@dataclass(frozen=True, kw_only=True)
class OptRequest(ProgressOptions, ModelOptions, _ModelAndOutput):
    """What ``byoc.opt`` is asked for."""

    external_data: bool = option(
        False,
        "weights in a file of their own beside the model, as above 2 GB anyway",
        flag=Flag("--external-data"),
    )
    check: bool = option(
        True,
        "run the model and what is made of it by ONNX Runtime, where that is installed, on random inputs",
        flag=Flag("--check"),
    )
