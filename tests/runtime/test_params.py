"""Parameters in TVM's layout: byte for byte, there and back, and every damage in one sentence."""

import struct

import numpy as np
import pytest

from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.params import (
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)

# the layout written out by hand: one parameter "ab", float32 [2, 1]
WRITTEN = bytes.fromhex(
    "b79c04054f8de5f7"
    + "0000000000000000"
    + "0100000000000000"
    + "0200000000000000"
    + "6162"
    + "0100000000000000"
    + "3fa1b496f0405edd"
    + "0000000000000000"
    + "01000000"
    + "00000000"
    + "02000000"
    + "02"
    + "20"
    + "0100"
    + "0200000000000000"
    + "0100000000000000"
    + "0800000000000000"
    + "0000803f"
    + "000000c0"
)


def test_the_bytes_are_those_of_tvm():
    assert bytes(save_param_dict({"ab": np.array([[1.0], [-2.0]], "float32")})) == WRITTEN
    ((name, array),) = load_param_dict(WRITTEN).items()
    assert name == "ab" and array.dtype == "float32" and array.numpy().tolist() == [[1], [-2]]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float64"]
)
def test_arrays_come_back_with_name_order_dtype_and_shape(dtype):
    rng = np.random.default_rng(0)
    shapes = {"zulu": (2, 3), "alpha": (), "ünï": (0, 4), "": (5,)}
    params = {name: rng.integers(0, 100, shape).astype(dtype) for name, shape in shapes.items()}
    params["strided"] = np.arange(12).reshape(3, 4).T[::2].astype(dtype)[::-1]
    found = load_param_dict(save_param_dict(params))
    assert list(found) == list(params)
    for name, array in params.items():
        assert found[name].dtype == dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_a_loaded_array_can_be_written_to():
    array = load_param_dict(WRITTEN)["ab"].numpy()
    array[0] = 5
    assert array.tolist() == [[5], [-2]]


def test_parameters_go_through_a_file(tmp_path):
    save_param_dict_to_file({"w": [1.5, 2.5]}, tmp_path / "net.params")
    assert load_param_dict_from_file(tmp_path / "net.params")["w"].numpy().tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"", "end within a field"),
        (WRITTEN[:-1], "end within a field at byte"),
        (b"\0" + WRITTEN[1:], "are no parameters"),
        (WRITTEN[:34] + struct.pack("<Q", 2) + WRITTEN[42:], "1 names and 2 arrays"),
        (WRITTEN[:42] + b"\0" + WRITTEN[43:], "does not begin as an array"),
        (WRITTEN.replace(b"\x02\x20\x01\x00", b"\x03\x40\x01\x00"), "a dtype that byoc does not know"),
        (WRITTEN[:24] + struct.pack("<Q", 2**63) + WRITTEN[32:], "end within a field"),
        (WRITTEN.replace(struct.pack("<q", 8), struct.pack("<q", 4)), "4 bytes for shape"),
    ],
)
def test_damaged_parameters_are_one_sentence(damaged, message):
    with pytest.raises(ArtifactError, match=message):
        load_param_dict(damaged)


def test_texts_cannot_be_saved():
    with pytest.raises(UserError, match="parameter 'words' is of dtype string"):
        save_param_dict({"words": np.array(["a"])})
