"""Attributes of the products of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.ir.attrs import Attrs, written


@dataclass(frozen=True)
class DenseAttrs(Attrs):
    """Attributes of ``nn.dense``."""

    units: int | None = written(None)
    out_dtype: str = ""


@dataclass(frozen=True)
class MatmulAttrs(Attrs):
    """Attributes of ``nn.matmul``."""

    units: int | None = written(None)
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True)
class BatchMatmulAttrs(Attrs):
    """Attributes of ``nn.batch_matmul``."""

    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False  # as in Relay's class; its function has True
