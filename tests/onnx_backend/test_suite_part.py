"""A few cases of each family of ONNX's suite: what generated C and OpenCL compute whole must stay so.

The whole suite is held to the page by ``tests/relay/test_onnx_node_conformance.py``, in the slow tests.
"""

from __future__ import annotations

import pytest

from byoc.onnx_backend.backend import ByocBackend
from byoc.onnx_backend.cases import cases_named
from byoc.onnx_backend.coverage import FOLDED, ON_DEVICE
from byoc.onnx_backend.survey import outcome

WHOLE = {  # modules of onnx.backend.test.case.node, and cases in them
    "arithmetic": (
        ["add", "mod", "bitshift"],
        ["test_add_uint8", "test_mod_mixed_sign_float16", "test_bitshift_left_uint16"],
    ),
    "choices": (
        ["where", "clip", "equal"],
        ["test_where_long_example", "test_clip_example_expanded", "test_equal_bcast"],
    ),
    "casts": (["cast", "castlike"], ["test_cast_FLOAT16_to_DOUBLE", "test_cast_FLOAT_to_FLOAT8E4M3FN"]),
    "products": (
        ["matmul", "gemm", "einsum"],
        ["test_matmul_3d", "test_gemm_all_attributes", "test_einsum_batch_matmul"],
    ),
    "convolutions": (
        ["conv", "convtranspose"],
        ["test_conv_with_strides_and_asymmetric_padding", "test_convtranspose_group_2"],
    ),
    "quantized": (["qlinearconv", "matmulinteger"], ["test_qlinearconv", "test_matmulinteger"]),
    "pools": (["maxpool", "globalmaxpool"], ["test_maxpool_2d_dilations", "test_globalmaxpool"]),
    "reductions": (
        ["globalaveragepool", "argmax"],
        ["test_globalaveragepool", "test_argmax_default_axis_random"],
    ),
    "rows": (["softmax", "layernormalization"], ["test_softmax_axis_1", "test_layer_normalization_3d_axis1_epsilon"]),
    "attention": (
        ["attention", "rotaryembedding"],
        ["test_attention_4d_gqa_causal", "test_rotary_embedding_interleaved"],
    ),
    "movement": (["transpose", "gather", "pad"], ["test_transpose_all_permutations_4", "test_gather_negative_indices"]),
    "images": (
        ["resize", "depthtospace", "gridsample"],
        ["test_depthtospace_crd_mode_example", "test_gridsample_bicubic"],
    ),
}


def found(family: str, device: str) -> list[tuple[str, str, str]]:
    """Case, kind, and where it ran, of a family's cases on a device."""
    modules, names = WHOLE[family]
    chosen = list(cases_named(names, modules))
    assert sorted(case.name for case in chosen) == sorted(names), "the suite has other cases than it had"
    outcomes = [outcome(case, device) for case in chosen]
    assert [(o.case, o.reason) for o in outcomes if o.kind != "passed"] == []
    assert all(o.coverage is not None for o in outcomes)
    return [(o.case, o.coverage.where, str(o.coverage.kernels or o.coverage.host)) for o in outcomes if o.coverage]


@pytest.mark.needs_cc
@pytest.mark.parametrize("family", WHOLE)
def test_generated_c_computes_all_of_a_familys_cases(family: str) -> None:
    assert {why for _, _, why in found(family, "CPU")} == {"{}"}


@pytest.mark.needs_opencl
@pytest.mark.parametrize("family", WHOLE)
def test_kernels_of_the_device_compute_all_of_a_familys_cases(family: str) -> None:
    if not ByocBackend.supports_device("OPENCL"):
        pytest.skip("no OpenCL device")
    assert [shown for shown in found(family, "OPENCL") if shown[1] not in (ON_DEVICE, FOLDED)] == []


@pytest.mark.needs_opencl
def test_what_the_device_does_not_take_is_reported_with_its_reason() -> None:
    if not ByocBackend.supports_device("OPENCL"):
        pytest.skip("no OpenCL device")
    (case,) = cases_named(["test_nonzero_example"], ["nonzero"])
    one = outcome(case, "OPENCL")
    assert one.kind == "passed" and one.coverage is not None
    assert "argwhere" in one.coverage.missing
    assert one.coverage.host and set(one.coverage.host.values()) <= {"expression, shape", "shape", "expression"}
