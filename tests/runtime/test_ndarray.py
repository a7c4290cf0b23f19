"""NDArray takes and gives numpy, DLPack and buffers."""

import sys

import numpy as np
import pytest

from byoc import runtime
from byoc.runtime.core.errors import DeviceError, UserError
from byoc.runtime.core.ndarray import from_dlpack


def test_numpy_is_wrapped_without_a_copy():
    data = np.arange(6, dtype="float32").reshape(2, 3)
    array = runtime.NDArray(data)
    data[0, 0] = 9
    assert array.numpy()[0, 0] == 9
    assert (array.shape, array.dtype, array.ndim, array.nbytes) == ((2, 3), "float32", 2, 24)


def test_dlpack_goes_both_ways_over_the_same_memory():
    array = runtime.array(np.arange(4, dtype="float32"))
    view = np.from_dlpack(array)
    assert np.shares_memory(view, array.numpy())

    class Producer:
        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    assert np.shares_memory(runtime.NDArray(Producer()).numpy(), array.numpy())


def test_the_buffer_protocol_is_taken():
    assert runtime.NDArray(memoryview(b"\x01\x02")).numpy().tolist() == [1, 2]
    assert runtime.NDArray(bytearray(b"\x03")).dtype == "uint8"


def test_the_buffer_protocol_is_given():
    array = runtime.array(np.arange(3, dtype="int32"))
    view = memoryview(array) if sys.version_info >= (3, 12) else array.data
    view[1] = 7
    assert array.numpy().tolist() == [0, 7, 2]


def test_asarray_gives_the_same_memory():
    array = runtime.empty((3,), "int32")
    assert np.shares_memory(np.asarray(array), array.numpy())
    assert np.array(array, dtype="float64").dtype == np.float64


def test_copyfrom_refuses_another_shape_with_both_in_the_sentence():
    array = runtime.empty((2, 2))
    with pytest.raises(UserError, match=r"cannot copy float64\[3\] into float32\[2, 2\]"):
        array.copyfrom(np.zeros(3))
    array.copyfrom(np.ones((2, 2), "float32"))
    assert array.copyto(runtime.cpu()).numpy().sum() == 4


def test_an_unknown_dtype_and_an_unknown_device_are_refused():
    with pytest.raises(UserError, match="unknown dtype 'float31'"):
        runtime.empty((1,), "float31")
    with pytest.raises(DeviceError, match="unknown kind of device 'quantum'"):
        runtime.device("quantum")


def test_devices_compare_by_kind_and_number():
    assert runtime.device("opencl", 1) == runtime.Device("opencl", 1) != runtime.device("opencl")
    assert (runtime.cpu().device_type, str(runtime.cpu())) == (1, "cpu(0)")


def test_a_capsule_goes_there_and_back_over_the_same_memory():
    array = runtime.array(np.arange(4, dtype="float32"))
    again = from_dlpack(array.to_dlpack())
    assert np.shares_memory(again.numpy(), array.numpy()) and from_dlpack(array).numpy()[3] == 3
    assert array.same_as(array) and not array.same_as(again)


def test_the_whole_of_an_array_is_set_by_a_slice():
    array = runtime.empty((2, 2), "int32")
    array[:] = np.array([[1, 2], [3, 4]])
    assert array.numpy().tolist() == [[1, 2], [3, 4]] and array.dtype == "int32"
    array[:] = 7
    assert array.numpy().sum() == 28
    with pytest.raises(UserError, match="a part of an array cannot be set"):
        array[0] = 1


def test_a_view_has_another_shape_and_the_same_memory():
    array = runtime.array(np.arange(6, dtype="int32"))
    view = array._create_view((2, 2), relative_byte_offset=8)
    assert view.numpy().tolist() == [[2, 3], [4, 5]] and np.shares_memory(view.numpy(), array.numpy())
    with pytest.raises(UserError, match="is no view of"):
        array._create_view((7,))
