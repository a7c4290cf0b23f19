"""Targets under TVM's names: options with types and defaults, keys, text."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "kind, option, default",
    [
        ("tensorrt", "tensorrt_version", []),
        ("tensorrt", "use_implicit_batch", True),
        ("tensorrt", "remove_no_mac_subgraphs", False),
        ("tensorrt", "max_workspace_size", 1 << 30),
        ("tensorrt", "use_fp16", False),
        ("tensorrt", "use_uint8", False),
        ("cutlass", "sm", 80),
        ("cutlass", "use_3xtf32", True),
        ("cutlass", "split_k_slices", [1]),
        ("cutlass", "profile_all_alignments", False),
        ("cutlass", "find_first_valid", False),
        ("cutlass", "use_multiprocessing", False),
        ("ccompiler", "header", ""),
        ("example_target_hook", "example_attribute", 0),
        ("cuda", "max_num_threads", 1024),
        ("cuda", "thread_warp_size", 32),
    ],
)
def test_a_target_has_the_options_that_its_kind_declares(tvm, kind, option, default):
    found = tvm.target.Target(kind).attrs[option]
    assert found == default and type(found) is type(default)


def test_options_given_as_text_become_the_type_that_is_declared(tvm):
    found = tvm.target.Target("tensorrt -use_fp16=True -tensorrt_version=8,5,1 -max_workspace_size=4096").attrs
    assert (found["use_fp16"], found["tensorrt_version"], found["max_workspace_size"]) == (True, [8, 5, 1], 4096)
    assert tvm.target.Target("tensorrt -use_fp16=False").attrs["use_fp16"] is False
    assert tvm.target.Target("tensorrt -use_fp16").attrs["use_fp16"] is True
    assert tvm.target.Target({"kind": "cutlass", "split_k_slices": [1, 2]}).attrs["split_k_slices"] == [1, 2]
    assert tvm.target.Target("ccompiler -header='#include <math.h>'").attrs["header"] == "#include <math.h>"
    assert tvm.target.Target("llvm -mcpu skylake -mattr=+avx2,+fma").mattr == ["+avx2", "+fma"]


@pytest.mark.parametrize("text", ["tensorrt -max_workspace_size=much", "cutlass -use_3xtf32=perhaps"])
def test_an_option_of_another_type_is_refused_with_its_name(tvm, text):
    with pytest.raises(tvm.TVMError, match="max_workspace_size|use_3xtf32"):
        tvm.target.Target(text)


@pytest.mark.parametrize(
    "text", ["tensorrt -use_fp16=1 -tensorrt_version=8,5", "cuda -arch=sm_80", "ccompiler", "opencl -device=mali"]
)
def test_a_target_is_made_again_from_its_text_and_from_its_fields(tvm, text):
    target = tvm.target.Target(text)
    assert tvm.target.Target(str(target)) == target == tvm.target.Target(target.export())


def test_the_text_of_a_target_has_its_keys_and_its_options_in_order(tvm):
    assert str(tvm.target.Target("llvm")) == "llvm -keys=cpu"
    wanted = "cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024 -thread_warp_size=32"
    assert str(tvm.target.Target("cuda -arch=sm_80")) == wanted
    assert tvm.target.Target("llvm -keys=arm_cpu -mcpu=x").keys == ["arm_cpu"]


@pytest.mark.parametrize("kind, limit", [("opencl", 128), ("metal", 31), ("llvm", 0), ("cuda", 0)])
def test_a_target_says_how_many_arguments_a_kernel_may_have(tvm, kind, limit):
    assert tvm.target.Target(kind).max_function_args == limit


def test_errors_are_runtime_errors_as_those_of_tvm_are(tvm):
    assert issubclass(tvm.TVMError, RuntimeError) and issubclass(tvm.error.DiagnosticError, tvm.TVMError)
    with pytest.raises(RuntimeError, match="unknown kind of target"):
        tvm.target.Target("nonsense")
