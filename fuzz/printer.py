"""A case as a test that stands by itself: ONNX's text, the inputs as numbers, and what is expected of them."""

from __future__ import annotations

import re

import numpy as np

from fuzz.case import Case, model_to_text
from fuzz.configurations import configuration_of


def as_test(case: Case) -> str:
    """The source of a pytest module that fails as long as *case* does."""
    text = model_to_text(case.model)
    if isinstance(text, str):
        model = f'onnx.load_model_from_string(bytes.fromhex(\n    "{text}"\n))'
    else:
        model = 'onnx.parser.parse_model("""\n' + "\n".join(text) + '\n""")'
    name = re.sub(r"\W+", "_", case.name).strip("_").lower()
    chosen = configuration_of(case.configurations[0]) if case.configurations else None
    targets = list(chosen.targets) if chosen else ["c"]
    feeds = ",\n    ".join(f"{n!r}: {array_text(v)}" for n, v in case.feeds[0].items())
    wanted = ",\n    ".join(array_text(v) for v in case.wanted[0])
    return f'''"""{case.name}: {case.note}"""

import ml_dtypes  # noqa: F401
import numpy as np
import onnx
import onnx.parser

import byoc

nan, inf = np.nan, np.inf
MODEL = {model}
FEEDS = {{
    {feeds}
}}
WANTED = [
    {wanted}
]


def test_{name}():
    library = byoc.compile(MODEL, {targets!r}, precision={chosen.precision if chosen else "f32"!r})
    for got, want in zip(library.run(FEEDS), WANTED, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=1e-5, atol=1e-6)
'''


def array_text(value: np.ndarray) -> str:
    """An array as Python writes it."""
    wide = value.astype("float64") if str(value.dtype) == "bfloat16" else value
    return f"np.array({wide.ravel().tolist()!r}, {str(value.dtype)!r}).reshape({list(value.shape)!r})"
