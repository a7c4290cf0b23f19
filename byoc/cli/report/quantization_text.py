"""What int8 did to a model, as text: each tensor's range and error, what stayed in floats, what each output lost.

It is read from the report of a library, which may come from a file that somebody else wrote: whatever is not as
``byoc.compile`` writes it is an ArtifactError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.strict_json import list_of, mapping_of, text_of, texts_of

HEADER = ("tensor", "dtype", "low", "high", "scale", "zero point", "error")
WHERE = "quantization"
LEFT = 2  # the columns of text


def quantization_lines(report: Mapping[str, object]) -> str:
    """The text, with an empty line before and behind; empty where nothing was quantized.

    Raises ArtifactError for a report that is none of ours.
    """
    if report.get(WHERE) is None:
        return ""
    quantized = mapping_of(report[WHERE], WHERE)
    host = mapping_of(quantized.get("host", {}), f"{WHERE}.host")
    targets = ", ".join(texts_of(quantized.get("targets", []), f"{WHERE}.targets"))
    lines = [*_share(quantized, targets or "the host"), *_share(host, "the host"), *_outputs(quantized)]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _share(share: Mapping[str, object], who: str) -> Iterator[str]:
    """The ranges of what *who* computes, and what it does not."""
    ranges = share.get("ranges")
    if isinstance(ranges, str):
        yield f"int8 of {who}: ranges are {text_of(ranges, f'{WHERE}.ranges')}"
    elif ranges is not None:
        rows = [_row(row, f"{WHERE}.ranges[{k}]") for k, row in enumerate(list_of(ranges, f"{WHERE}.ranges"))]
        if rows:
            yield f"int8 of {who}, by {_number(share, 'samples')} samples ({share.get('method')}):"
            yield from _aligned([HEADER, *rows])
    left = list_of(share.get("left", []), f"{WHERE}.left")
    if left:
        yield f"in f32 on {who}:" if who == "the host" else f"in f32, and not on {who}:"
    for k, item in enumerate(left):
        one = mapping_of(item, f"{WHERE}.left[{k}]")
        nodes = ", ".join(texts_of(one.get("nodes", []), f"{WHERE}.left[{k}].nodes"))
        yield f"  {one.get('operator')}{f' ({nodes})' if nodes else ''}: {one.get('code')}"


def _outputs(share: Mapping[str, object]) -> Iterator[str]:
    errors = mapping_of(share.get("errors", {}), f"{WHERE}.errors")
    if errors:
        yield "difference of int8 from f32 on the samples, relative to the size of the output:"
    for name in errors:
        yield f"  {name}: {_number(errors, name):.2%}"


def _row(data: object, where: str) -> tuple[str, ...]:
    row = mapping_of(data, where)
    nodes = ", ".join(texts_of(row.get("nodes", []), f"{where}.nodes")) or "-"
    low, high, scale = (f"{_number(row, key, where):.4g}" for key in ("low", "high", "scale"))
    zero, error = _number(row, "zero_point", where), _number(row, "error", where)
    return nodes, text_of(row.get("dtype", ""), f"{where}.dtype"), low, high, scale, f"{zero:.0f}", f"{error:.2%}"


def _number(data: Mapping[str, object], key: str, where: str = WHERE) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArtifactError(f"{where}.{key}: expected a number, found {value!r}")
    return value


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  " + "  ".join(c.ljust(w) if k < LEFT else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths, strict=True)))
        for r in rows
    ]
