"""The class of the attributes of each operator, by Relay's name: users ask ``type(call.attrs).__name__``."""

from __future__ import annotations

import pytest

import byoc.relay.op  # noqa: F401 - registers the operators
from byoc.ir.op import OPS

# class -> fields, then the operators that have it
CLASSES: dict[str, tuple[str, str]] = {
    **{f"MaxPool{n}DAttrs": ("pool_size strides dilation padding layout out_layout ceil_mode", f"nn.max_pool{n}d")
       for n in (1, 2, 3)},
    **{f"AvgPool{n}DAttrs": ("pool_size strides dilation padding layout out_layout ceil_mode count_include_pad",
                             f"nn.avg_pool{n}d") for n in (1, 2, 3)},
    **{f"AdaptivePool{n}DAttrs": ("output_size layout out_layout",
                                  f"nn.adaptive_avg_pool{n}d nn.adaptive_max_pool{n}d") for n in (1, 2, 3)},
    "GlobalPool2DAttrs": ("layout out_layout", "nn.global_avg_pool2d nn.global_max_pool2d"),
    **{f"Resize{n}DAttrs": (
        "size roi layout method coordinate_transformation_mode rounding_method cubic_alpha cubic_exclude "
        "extrapolation_value out_dtype", f"image.resize{n}d") for n in (1, 2, 3)},
    **{f"Conv{n}DAttrs": ("strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout "
                          "out_dtype", f"nn.conv{n}d") for n in (1, 2, 3)},
    "ReduceAttrs": ("axis keepdims exclude", "sum mean max min prod all any"),
    "ArgReduceAttrs": ("axis keepdims exclude select_last_index", "argmax argmin"),
    "VarianceAttrs": ("axis keepdims exclude unbiased", "variance"),
    "InitOpAttrs": ("shape dtype", "zeros ones full broadcast_to collapse_sum_to"),
    "FixedPointMultiplyAttrs": ("multiplier shift", "fixed_point_multiply"),
    "FixedPointMultiplyPerAxisAttrs": (
        "is_lshift_required is_rshift_required axes", "fixed_point_multiply_per_axis"),
    "DebugAttrs": ("debug_func", "debug"),
    "CompilerAttrs": ("compiler", "annotation.compiler_begin annotation.compiler_end"),
}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_an_attribute_class_has_relays_name_and_fields(name):
    fields, operators = CLASSES[name]
    for operator in operators.split():
        cls = OPS[operator].attrs_type
        assert cls.__name__ == name
        assert set(fields.split()) <= set(cls.__dataclass_fields__)
