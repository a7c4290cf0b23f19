"""How layouts pass through operators, and who says so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from byoc.compat.tvm.behaviours import behaviour

AREA = "layouts"


def _converted(
    tvm: ModuleType, relay: ModuleType, tail: Callable[[Any], Any], layout: tuple[str, str] = ("NHWC", "default")
) -> str:
    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(8, 8, 3, 3))
    mod = tvm.IRModule.from_expr(tail(relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=8)))
    with tvm.transform.PassContext(opt_level=3):
        return str(relay.transform.ConvertLayout({"nn.conv2d": list(layout)})(mod)["main"])


@behaviour(AREA, "argmax follows a new layout over several axes")
def _argmax(tvm: ModuleType, relay: ModuleType) -> None:
    text = _converted(tvm, relay, lambda y: relay.argmax(y, axis=[2, 3]))
    assert "axis=[1, 2]" in text and text.count("layout_transform") == 2


@behaviour(AREA, "strided_slice keeps its axes, renamed by place")
def _strided_slice(tvm: ModuleType, relay: ModuleType) -> None:
    text = _converted(tvm, relay, lambda y: relay.strided_slice(y, begin=[0], end=[4], axes=[1]))
    assert "axes=[3]" in text


@behaviour(AREA, "a convolution to a blocked layout is nn.contrib_conv2d_NCHWc")
def _blocked(tvm: ModuleType, relay: ModuleType) -> None:
    assert "nn.contrib_conv2d_NCHWc" in _converted(tvm, relay, relay.nn.relu, ("NCHW4c", "OIHW4i4o"))


@behaviour(AREA, "topk renames its axis")
def _topk(tvm: ModuleType, relay: ModuleType) -> None:
    text = _converted(tvm, relay, lambda y: relay.topk(y, k=2, axis=1, ret_type="values"))
    assert "topk" in text and "axis=3" in text


@behaviour(AREA, "a list attribute prints as a list")
def _list_attribute(tvm: ModuleType, relay: ModuleType) -> None:
    call = relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3)), padding=(1, 1))
    assert str(call.attrs.padding) == "[1, 1, 1, 1]"


@behaviour(AREA, "a function that infers layouts answers with InferCorrectLayoutOutput")
def _inferred(tvm: ModuleType, relay: ModuleType) -> None:
    utils = importlib.import_module("tvm.relay.transform.infer_layout_utils")

    output = utils.InferCorrectLayoutOutput(["NHWC"], ["NHWC"], None)
    assert [one.name for one in output.input_layouts] == ["NHWC"] and output.new_attrs is None
