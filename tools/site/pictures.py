"""The picture of README and of the site's first page: the digit classifier as ``make demo`` cuts it.

``python -m tools.site.pictures`` draws it from the plan and writes ``docs/pictures/digits.svg``.
"""

from __future__ import annotations

from pathlib import Path

import byoc
from byoc.driver.pipeline import optimize
from byoc.partition.show.draw import to_svg

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "digits.svg"
MODEL = ROOT / "examples" / "digits" / "digits.onnx"
KEPT_ON_HOST = ["divide", "nn.softmax"]  # as in examples/digits/demo.py


def digits() -> str:
    """The cut digit classifier as SVG."""
    mod = optimize(byoc.import_onnx(MODEL))
    return to_svg(mod, byoc.plan(mod, ["opencl", "c"], exclude=KEPT_ON_HOST))


if __name__ == "__main__":
    PICTURE.write_text(digits(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
