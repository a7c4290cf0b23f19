"""Operators that move, replace and find elements, against numpy, scipy and examples of TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
import scipy.sparse

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(11)


VALUES = {}


def run(expr, *arrays):
    """The numbers of *expr* (or of the fields of a TupleWrapper); its variables are those made by ``var``."""
    root = expr.astuple() if isinstance(expr, relay.TupleWrapper) else expr
    params = relay.analysis.free_vars(root)
    assert len(arrays) == len(params)
    result = evaluate(relay.Function(params, root), [VALUES[p] for p in params])
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else np.asarray(result)


def var(name, array):
    """A variable of the type of *array*, which is its value in ``run``."""
    made = relay.var(name, shape=array.shape, dtype=str(array.dtype))
    VALUES[made] = array
    return made


def test_space_to_batch_is_tensorflows_example():
    data = np.arange(1, 17, dtype="float32").reshape(1, 4, 4, 1)
    got = run(relay.nn.space_to_batch_nd(var("x", data), [2, 2], [[0, 0], [0, 0]]), data)
    want = [[[1, 3], [9, 11]], [[2, 4], [10, 12]], [[5, 7], [13, 15]], [[6, 8], [14, 16]]]
    assert got[..., 0].tolist() == want
    back = run(relay.nn.batch_to_space_nd(var("x", got), block_shape=[2, 2], crops=[[0, 0], [0, 0]]), got)
    np.testing.assert_array_equal(back, data)


def test_space_to_batch_with_padding_is_undone_by_cropping_it():
    data = RNG.standard_normal((2, 3, 5, 2)).astype("float32")
    x = var("x", data)
    moved = relay.nn.space_to_batch_nd(x, (2, 3), [[1, 0], [0, 1]], pad_value=3)
    assert infer_expr(moved) == relay.TensorType((12, 2, 2, 2))
    assert moved.attrs.block_shape == (2, 3) and moved.attrs.pad_value == 3
    np.testing.assert_array_equal(run(relay.nn.batch_to_space_nd(moved, (2, 3), [[1, 0], [0, 1]]), data), data)


def test_blocks_that_do_not_fit_are_refused():
    x = relay.var("x", shape=(3, 4, 5, 1))
    with pytest.raises(TypeInferenceError, match="a padded axis of 5 cannot be cut in blocks of 2"):
        infer_expr(relay.nn.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]))
    with pytest.raises(TypeInferenceError, match="a batch of 3 does not hold 4 blocks each"):
        infer_expr(relay.nn.batch_to_space_nd(x, [2, 2], [[0, 0], [0, 0]]))


@pytest.mark.parametrize(
    "shape, newshape, want",
    [
        ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
        ((2, 3, 4), (2, 0, 0), (2, 3, 4)),
        ((2, 3, 4), (0, -1), (3, 8)),
        ((2, 3, 4), (-1, 0), (6, 4)),
        ((2, 3, 4), (0, -3), (2, 12)),
    ],
)
def test_reverse_reshape_reads_special_numbers_from_the_right(shape, newshape, want):
    data = np.arange(24, dtype="float32").reshape(shape)
    call = relay.reverse_reshape(var("x", data), newshape=newshape)
    assert call.op.name == "contrib_reverse_reshape" and call.attrs.newshape == newshape
    assert infer_expr(call) == relay.TensorType(want)
    np.testing.assert_array_equal(run(call, data), data.reshape(want))


def test_sequence_mask_is_numpys_where():
    data, lengths = RNG.standard_normal((5, 3, 2)).astype("float32"), np.array([2, 5, 0], "int32")
    got = run(relay.sequence_mask(var("x", data), var("n", lengths), mask_value=-1.5, axis=0), data, lengths)
    for step, row in np.ndindex(5, 3):
        want = data[step, row] if step < lengths[row] else np.full(2, -1.5)
        np.testing.assert_array_equal(got[step, row], want)


@pytest.mark.parametrize(
    "begin, end, strides, vshape",
    [
        ([3, 0, 0], [4, 1, 4], [-1, -1, 1], None),
        ([0, 0, 0], [4, -5, 4], [1, -1, 2], (3, 1, 2)),
        ([1, 1, 0], [3, 3, 3], None, (2, 2, 3)),
        ([1, 0, 0], [2, 2, 3], [1, 1, 2], (1, 2, 2)),
    ],
)
def test_strided_set_assigns_a_slice_of_numpy(begin, end, strides, vshape):
    data = RNG.standard_normal((3, 4, 4)).astype("float32")
    where = tuple(
        slice(b, None if s < 0 and e < -n else e, s)
        for b, e, s, n in zip(begin, end, strides or [1] * 3, data.shape, strict=True)
    )
    v = RNG.standard_normal(vshape or data[where].shape).astype("float32")
    want = data.copy()
    want[where] = v
    got = run(relay.strided_set(var("x", data), var("v", v), begin, end, strides), data, v)
    np.testing.assert_array_equal(got, want)


def test_matrix_set_diag_is_numpys_fill_of_one_diagonal():
    data, diagonal = np.zeros((2, 3, 4), "float32"), RNG.standard_normal((2, 3)).astype("float32")
    got = run(relay.matrix_set_diag(var("x", data), var("d", diagonal)), data, diagonal)
    for k in range(2):
        np.testing.assert_array_equal(got[k], np.eye(3, 4) * np.concatenate([diagonal[k], [0]]))


@pytest.mark.parametrize(
    "align, want",
    [
        ("LEFT_RIGHT", [[1, 6, 9, 0], [4, 2, 7, 0], [0, 5, 3, 8]]),
        ("RIGHT_LEFT", [[1, 6, 9, 0], [4, 2, 7, 0], [0, 5, 3, 8]]),
    ],
)
def test_matrix_set_diag_is_tensorflows_example_in_both_alignments(align, want):
    rows = {
        "LEFT_RIGHT": [[9, 0, 0], [6, 7, 8], [1, 2, 3], [0, 4, 5]],
        "RIGHT_LEFT": [[0, 9, 0], [6, 7, 8], [1, 2, 3], [4, 5, 0]],
    }[align]
    data, diagonal = np.zeros((3, 4), "int32"), np.array(rows, "int32")
    call = relay.matrix_set_diag(var("x", data), var("d", diagonal), k=(-1, 2), align=align)
    got = run(call, data, diagonal)
    assert got.tolist() == want


def test_unravel_index_is_numpys():
    for indices, shape in ([0, 1, 2, 3], [2, 2]), ([22, 41, 37], [7, 6]), (144, [5, 5, 5, 2]):
        array = np.array(indices, "int32")
        got = run(relay.unravel_index(var("i", array), relay.const(shape, "int32")), array)
        np.testing.assert_array_equal(got, np.stack(np.unravel_index(array, shape)))


def test_searchsorted_is_numpys_row_by_row():
    rows = np.sort(RNG.integers(0, 9, (2, 3, 6)).astype("float32"), -1)
    values = RNG.integers(-1, 10, (2, 3, 4)).astype("float32")
    for right in (False, True):
        got = run(relay.searchsorted(var("s", rows), var("v", values), right=right, dtype="int64"), rows, values)
        assert got.dtype == np.int64
        for at in np.ndindex(2, 3):
            np.testing.assert_array_equal(got[at], np.searchsorted(rows[at], values[at], "right" if right else "left"))


@pytest.mark.parametrize("shapes", [[(2, 3)], [(2, 1), (2, 3)], [(2, 1, 3), (1, 4, 1), (3,)]])
def test_adv_index_is_numpys_indexing(shapes):
    data = RNG.standard_normal((5, 5, 5, 2)).astype("float32")
    indices = [RNG.integers(0, 5, s) for s in shapes]
    call = relay.adv_index([var("x", data), *(var(f"i{k}", i) for k, i in enumerate(indices))])
    want = data[tuple(indices)]
    assert infer_expr(call).shape == want.shape
    np.testing.assert_array_equal(run(call, data, *indices), want)


def test_invert_permutation_is_an_argsort():
    data = RNG.permutation(9).astype("int64")
    np.testing.assert_array_equal(run(relay.invert_permutation(var("x", data)), data), np.argsort(data))


def test_what_is_no_permutation_is_not_inverted():
    data = np.array([2, 0, 2], "int32")
    with pytest.raises(UserError, match="each index below 3 once, and 1 is missing"):
        run(relay.invert_permutation(var("x", data)), data)


def test_sliding_windows_have_the_shape_of_relays_example():
    data = RNG.standard_normal((1, 3, 32, 32)).astype("float32")
    call = relay.sliding_window(var("x", data), axis=1, window_shape=[3, 4, 5], strides=[1, 2, 3])
    assert infer_expr(call).shape == (1, 1, 15, 10, 3, 4, 5)
    got = run(call, data)
    np.testing.assert_array_equal(got[0, 0, 7, 4], data[0, 0:3, 14:18, 12:17])


def test_trunc_divide_and_trunc_mod_round_toward_zero():
    a, b = np.array([-7, 7, -7, 7], "int32"), np.array([2, 2, -2, -2], "int32")
    x, y = var("a", a), var("b", b)
    assert run(relay.trunc_divide(x, y), a, b).tolist() == [-3, 3, 3, -3]
    assert run(relay.trunc_mod(x, y), a, b).tolist() == [-1, 1, -1, 1]
    f, g = a / np.float32(2), b.astype("float32")
    got = run(relay.trunc_divide(var("f", f), var("g", g)), f, g)
    assert got.tolist() == np.trunc(f / g).tolist()


def test_sparse_to_dense_writes_values_at_coordinates():
    points, values = np.array([[0, 0], [1, 2]], "int32"), np.array([1, 2], "int32")
    call = relay.sparse_to_dense(var("i", points), [3, 4], var("v", values))
    assert infer_expr(call) == relay.TensorType((3, 4), "int32")
    want = scipy.sparse.coo_matrix((values, points.T), (3, 4)).toarray()
    np.testing.assert_array_equal(run(call, points, values), want)
    shape = np.array([3, 4], "int64")
    dynamic = relay.sparse_to_dense(var("i", points), var("s", shape), var("v", values), default_value=7)
    assert dynamic.op.name == "dyn.sparse_to_dense"
    np.testing.assert_array_equal(run(dynamic, points, values, shape), np.where(want == 0, 7, want))


def test_sparse_reshape_moves_coordinates_as_a_dense_reshape_would():
    dense = np.zeros((2, 3, 6), "int64")
    points = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int32")
    old, new = np.array([2, 3, 6], "int32"), np.array([9, -1], "int32")
    dense[tuple(points.T)] = np.arange(1, 6)
    call = relay.sparse_reshape(var("i", points), var("o", old), var("n", new))
    moved, shape = run(call, points, old, new)
    assert shape.tolist() == [9, 4]
    assert dense.reshape(9, 4)[tuple(moved.T)].tolist() == [1, 2, 3, 4, 5]


def test_sparse_fill_empty_rows_is_tensorflows_example():
    parts = [
        np.array([[0, 1], [0, 3], [2, 0], [3, 1]], "int64"),
        np.array([1, 2, 3, 4], "int64"),
        np.array([5, 6], "int64"),
        np.array([10], "int64"),
    ]
    indices, values, empty = run(relay.sparse_fill_empty_rows(*(var(f"p{k}", p) for k, p in enumerate(parts))), *parts)
    assert indices.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert values.tolist() == [1, 2, 10, 3, 4, 10]
    assert empty.tolist() == [False, True, False, False, True]


@pytest.mark.parametrize("count", [None, 7, "tensor"])
@pytest.mark.parametrize("shape", [(6,), (6, 3), (6, 2, 2)])
def test_segment_sum_adds_the_rows_of_each_segment(count, shape):
    data = RNG.standard_normal(shape).astype("float32")
    ids = np.array([0, 0, 1, 1, 4, 4], "int32")
    given = relay.const([7], "int32") if count == "tensor" else count
    got = run(relay.segment_sum(var("x", data), var("i", ids), num_segments=given), data, ids)
    want = np.zeros((5 if count is None else 7, *shape[1:]), "float32")
    np.add.at(want, ids, data)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_dft_is_numpys_both_ways():
    real, imaginary = (RNG.standard_normal((3, 7)).astype("float32") for _ in range(2))
    for inverse in (False, True):
        got = run(relay.dft(var("r", real), var("i", imaginary), inverse=inverse), real, imaginary)
        n = np.arange(7)
        waves = np.exp((2j if inverse else -2j) * np.pi * np.outer(n, n) / 7) / (7 if inverse else 1)
        want = (real + 1j * imaginary) @ waves
        np.testing.assert_allclose(got[0], want.real, atol=1e-5)
        np.testing.assert_allclose(got[1], want.imag, atol=1e-5)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_stft_is_scipys(onesided, normalized):
    data, window = RNG.standard_normal((2, 50)).astype("float64"), np.hanning(16)
    call = relay.stft(var("x", data), 16, 5, 16, var("w", window), normalized, onesided)
    got = run(call, data, window)
    rows = 16 // 2 + 1 if onesided else 16
    for frame in range((50 - 16) // 5 + 1):
        want = np.fft.fft(data[:, frame * 5 : frame * 5 + 16] * window)[:, :rows] / (4 if normalized else 1)
        np.testing.assert_allclose(got[:, :, frame, 0] + 1j * got[:, :, frame, 1], want, atol=1e-9)
    assert infer_expr(call).shape == got.shape


def test_stft_fills_in_what_is_none():
    call = relay.stft(relay.var("x", shape=(1, 40)), 8, None, None, None, False, True)
    assert (call.attrs.hop_length, call.attrs.win_length) == (2, 8)
    assert infer_expr(call).shape == (1, 5, 17, 2)


def test_a_sparse_product_is_scipys():
    dense = RNG.standard_normal((4, 12)).astype("float64")
    other = RNG.standard_normal((5, 12)).astype("float64")
    csr = scipy.sparse.random(6, 12, 0.4, "csr", "float64", random_state=1)
    bsr = scipy.sparse.bsr_matrix(csr.toarray(), blocksize=(2, 3))
    for matrix in (csr, bsr):
        call = relay.nn.sparse_dense(relay.const(dense, "float64"), matrix)
        assert infer_expr(call).shape == (4, 6)
        np.testing.assert_allclose(run(call), dense @ csr.toarray().T, rtol=1e-9)
    parts = tuple(relay.const(p, str(p.dtype)) for p in (csr.data, csr.indices, csr.indptr))
    left = relay.nn.sparse_dense(relay.const(other, "float64"), parts, sparse_lhs=True)
    assert infer_expr(left).shape == (6, 5)
    np.testing.assert_allclose(run(left), csr.toarray() @ other.T, rtol=1e-9)
    summed = relay.nn.sparse_add(relay.const(csr.toarray() + 1, "float64"), csr)
    np.testing.assert_allclose(run(summed), csr.toarray() * 2 + 1)


def test_a_sparse_transpose_is_scipys():
    square = scipy.sparse.random(7, 7, 0.4, "csr", "float32", random_state=2)
    got = run(relay.nn.sparse_transpose(square))
    want = square.T.tocsr()
    want.sort_indices()
    for array, expected in zip(got, (want.data, want.indices, want.indptr), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_sparse_matrix_is_three_tensors():
    with pytest.raises(UserError, match="a sparse matrix is"):
        relay.nn.sparse_dense(relay.var("x", shape=(2, 2)), 3)


def test_stop_fusion_and_checkpoint_change_nothing():
    data = RNG.standard_normal((2, 3)).astype("float32")
    x = var("x", data)
    np.testing.assert_array_equal(run(relay.annotation.stop_fusion(x), data), data)
    np.testing.assert_array_equal(run(relay.annotation.checkpoint(x), data), data)
    both = relay.annotation.checkpoint(relay.Tuple([x, relay.negative(x)]))
    assert infer_expr(both) == relay.TupleType([relay.TensorType((2, 3))] * 2)
    first, second = run(both, data)
    np.testing.assert_array_equal(first, -second)


def test_a_fifo_buffer_forgets_its_oldest_elements():
    buffer, new = np.arange(12, dtype="float32").reshape(2, 6), np.full((2, 2), 9, "float32")
    got = run(relay.nn.fifo_buffer(var("d", new), var("b", buffer), axis=1), new, buffer)
    np.testing.assert_array_equal(got, np.concatenate([buffer[:, 2:], new], 1))
