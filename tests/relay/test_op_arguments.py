"""Functions of operators whose parameters are declared as a class of arguments (``byoc.relay.op.core.arguments``)."""

import inspect
import pydoc
import typing
from dataclasses import dataclass

import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.relay.op.attributes.convolution import Conv2DAttrs
from byoc.relay.op.core.arguments import DataAndWeight, WindowArguments, takes_fields_of

X, W = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))


@dataclass(eq=False, repr=False)
class Scaled(WindowArguments, DataAndWeight):
    AXES = 2
    strides: "int | tuple[int, ...]" = 1
    padding: "int | tuple[int, ...]" = 0
    scale: float = 2.0


@takes_fields_of(Scaled)
def scaled(given: Scaled) -> Scaled:
    """What was given."""
    return given


def test_inputs_stand_before_the_options_and_keep_their_order():
    assert list(inspect.signature(scaled).parameters) == ["data", "weight", "strides", "padding", "scale"]
    assert vars(scaled(X, W, 3, scale=0.5)) == dict(data=X, weight=W, strides=3, padding=0, scale=0.5)


def test_help_shows_the_parameters_the_docstring_and_the_result():
    text = pydoc.plain(pydoc.render_doc(relay.nn.conv2d))
    assert "conv2d(data: 'RelayExpr', weight: 'RelayExpr', strides: 'Ints' = (1, 1)" in text
    assert "out_dtype: 'str' = '') -> 'Call'" in text and "2-d convolution. Source:" in text


def test_type_hints_are_those_of_the_parameters():
    assert typing.get_type_hints(relay.nn.batch_norm)["epsilon"] is float
    assert relay.nn.conv2d.__annotations__["groups"] == "int"
    assert "given" not in relay.nn.conv2d.__annotations__


@pytest.mark.parametrize(
    "args, kwargs, problem",
    [
        ((X,), {}, "conv2d() missing a required argument: 'weight'"),
        ((X, W), {"stride": 1}, "conv2d() got an unexpected keyword argument 'stride'"),
        ((X, W), {"data": X}, "conv2d() multiple values for argument 'data'"),
        ((X, W, *[1] * 11), {}, "conv2d() too many positional arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_reported_by_the_functions_name(args, kwargs, problem):
    with pytest.raises(TypeError) as caught:
        relay.nn.conv2d(*args, **kwargs)
    assert str(caught.value) == problem


def test_a_type_error_of_the_function_itself_is_not_hidden():
    with pytest.raises(TypeError, match="int"):
        relay.image.crop_and_resize(X, W, W, [None, 2], "NCHW")


def test_one_number_stands_for_all_axes_of_a_window():
    attrs = relay.nn.conv2d(X, weight=W, strides=2, padding=1, kernel_size=3).attrs
    assert attrs == Conv2DAttrs(strides=(2, 2), padding=(1, 1, 1, 1), kernel_size=(3, 3))


def test_a_wrong_count_of_numbers_names_the_parameter():
    with pytest.raises(TypeInferenceError, match="dilation takes 1 or 2 numbers, got 3"):
        relay.nn.conv2d(X, W, dilation=(1, 2, 3))


def test_attributes_that_are_made_stand_before_arguments_of_the_same_name():
    given = relay.nn.conv2d_backward_weight(X, X, kernel_size=3, grad_layout="NHWC", data_layout="NCHW").attrs
    assert (given.data_layout, given.kernel_layout, given.out_layout) == ("NHWC", "NCHW", "OIHW")
