"""What certification tries of a backend whose tensors are not those of the samples: another rank, another layout.

What it names and is not tried is reported, and so is why nothing of a model was taken.
"""

import pathlib
import re

import pytest

from byoc.contract.importing import import_backend
from byoc.testing import certify
from byoc.testing.cases.layouts import LAYOUT

pytestmark = pytest.mark.needs_cc
DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
IMAGES = """
import numpy as np
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import constraints as C, register_backend
from byoc.runtime.json import KernelTable

{table}

@register_backend
class Images(JsonBackend):
    "images of four dimensions"
    name = "NAME"
    {own}
    constraints = (C.operators({operators}), C.dtypes("float32"), C.ranks(4), {more})
"""
RELU = """
@TABLE.kernel("nn.relu")
def relu(x):
    return np.maximum(x, 0) if x.ndim != 4 else np.maximum(x, 1)
"""


@pytest.fixture
def images(tmp_path, of_this_test):
    """A function that registers a backend of images by this text, and gives its name."""

    def register(operators, more="", kernel=""):
        name = f"images_of_{re.sub(r'[^a-z0-9]', '', tmp_path.name)}"
        table = f"TABLE = KernelTable({name!r})\n{kernel}" if kernel else ""
        text = IMAGES.format(table=table, operators=operators, more=more, own=f"table = {name!r}" if kernel else "")
        path = tmp_path / f"{name}.py"
        path.write_text(text.replace("NAME", name))
        import_backend(str(path))
        return name

    return register


def test_operators_are_tried_in_the_rank_that_the_backend_takes(images):
    name = images('"nn.relu", "add", "concatenate", "nn.softmax"')
    found = certify(name, saved=False, only=["nn.relu", "add", "concatenate", "nn.softmax"])
    assert found.ok and set(found.covered) == {"nn.relu", "add", "concatenate", "nn.softmax"}, str(found)
    assert any(case.name == "nn.softmax[0] of rank 4" for case in found.cases)
    assert not found.untried


def test_a_kernel_that_is_wrong_in_that_rank_alone_is_found(images):
    found = certify(images('"nn.relu"', kernel=RELU), saved=False, only=["nn.relu"])
    assert {c.verdict for c in found.failures} == {"wrong"} and all("of rank 4" in c.name for c in found.failures)


@pytest.mark.parametrize("kernel", ["HWIO", "OHWI"])
def test_poolings_and_convolutions_are_tried_in_the_layout_that_the_backend_takes(images, kernel):
    name = images('"nn.conv2d", "nn.max_pool2d"', f'C.layouts(data="NHWC", kernel="{kernel}")')
    found = certify(name, saved=False, only=["nn.conv2d", "nn.max_pool2d"])
    tried = {c.operator for c in found.cases if c.kind == LAYOUT}
    assert found.ok and tried == {"nn.conv2d", "nn.max_pool2d"}, str(found)


def test_what_a_backend_names_and_takes_no_sample_of_is_told(images):
    only = ["nn.relu", "nn.softmax"]
    found = certify(images('"nn.relu", "nn.softmax"', "C.attributes(axis=77)"), saved=False, only=only)
    assert found.covered == ("nn.relu",)
    shown = r"it names this operator, and takes none of its samples: .*axis of 77, got axis -1"
    assert re.match(shown, found.untried["nn.softmax"]), str(found)
    assert "untried: 1 operator or pattern\n  nn.softmax: it names" in str(found)


@pytest.mark.slow
def test_a_model_of_free_sizes_is_tried_with_numbers_where_the_backend_wants_these(images):
    found = certify(images('"nn.relu", "add"', "C.static_sizes()"), saved=False, only=["add"], models=[DIGITS])
    (case,) = [c for c in found.cases if c.kind == "models"]
    assert (case.name, case.verdict) == ("digits.onnx, sizes of 1", "right")


def test_a_model_of_which_nothing_is_taken_says_what_the_backend_wants(images):
    found = certify(images('"nn.relu"', 'C.attributes(axis=77), C.dtypes("int8")'), only=["none"], models=[DIGITS])
    assert found.untried["model digits.onnx"].startswith("it takes no operator of this model, and wants: ")
    assert "int8 for operands and results" in found.untried["model digits.onnx"] and not found.ok


def test_a_refusal_that_is_given_again_and_again_is_one_line_with_its_count(images):
    """Of a backend that takes nothing; each operator that is refused was a line of its own."""
    name = images('"exp"', 'C.dtypes("float16"), C.operators("log")')
    found = certify(name, only=["nn.relu", "exp", "tanh", "nn.dense", "sigmoid"], saved=False)
    lines = [text for text in found.refusals if text.startswith("the operators log,")]
    shown = r"the operators log, got \S+, \S+, \S+ and \d+ more \(\d\d+ times\)"
    assert len(lines) == 1 and re.fullmatch(shown, lines[0]), found.refusals
