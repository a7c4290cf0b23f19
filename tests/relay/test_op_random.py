"""Threefry against the vectors that its authors publish with Random123, and the distributions by their moments."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel
from byoc.runtime.kernels.random import threefry

KEY = relay.TensorType([10], "uint64")
ONES = 0xFFFFFFFFFFFFFFFF
# key, counter, hash: threefry4x64 with 20 rounds in Random123's kat_vectors
VECTORS = [
    ([0] * 4, [0] * 4, [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]),
    ([ONES] * 4, [ONES] * 4, [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168]),
    (
        [0x452821E638D01377, 0xBE5466CF34E90C6C, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD],
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
        [0xA7E8FDE591651BD9, 0xBAAFD0C30138319B, 0x84A5C1A729E685B9, 0x901D406CCEBC1BA4],
    ),
]


def key(seed: int) -> np.ndarray:
    return relay.random.threefry_key(seed).data.numpy()


def generate(words: np.ndarray, *shape: int):
    return get_kernel("random.threefry_generate")(words, out_shape=shape)


def split(words: np.ndarray):
    return get_kernel("random.threefry_split")(words)


@pytest.mark.parametrize("words, counter, want", VECTORS)
def test_the_hash_is_threefry(words, counter, want):
    got = threefry(np.array(words, "uint64"), np.array([counter, counter], "uint64"))
    assert [[int(x) for x in row] for row in got] == [want, want]


def test_numbers_are_the_hashes_of_consecutive_counters():
    _, got = generate(key(0), 10)
    hashes = threefry(np.zeros(4, "uint64"), np.array([[0, 0, 0, n] for n in range(3)], "uint64"))
    assert got.tolist() == hashes.reshape(-1)[:10].tolist()
    assert [int(x) for x in got[:4]] == VECTORS[0][2]


def test_the_same_seed_gives_the_same_numbers_and_another_others():
    first, second, other = (generate(key(seed), 12) for seed in (1, 1, 2))
    assert (first[0] == second[0]).all() and (first[1] == second[1]).all()
    assert (first[1] != other[1]).all()


def test_no_word_comes_twice_whatever_sizes_are_asked_for():
    words, seen = key(7), []
    for size in (1, 4, 5, 17, 24, 3):
        words, numbers = generate(words, size)
        seen += numbers.tolist()
    for child in split(words):
        seen += generate(child, 9)[1].tolist()
        for grandchild in split(child):
            seen += generate(grandchild, 9)[1].tolist() if grandchild[4] != child[4] or grandchild[5] else []
    assert len(set(seen)) == len(seen)


def test_a_key_that_generated_before_its_split_is_not_met_again():
    after, numbers = generate(key(3), 8)
    left, right = split(after)
    seen = [*numbers.tolist(), *generate(left, 8)[1].tolist(), *generate(right, 8)[1].tolist()]
    assert len(set(seen)) == len(seen)


def test_two_hundred_splits_outlive_the_path():
    words, seen = key(5), []
    for _ in range(200):
        words, right = split(words)
        seen += generate(right, 4)[1].tolist()
    assert len(set(seen)) == 800


def test_a_full_counter_makes_a_new_key():
    words = np.array([0, 0, 0, 0, 0, 0, ONES, ONES - 2, 1 << 63, 0], "uint64")
    after, numbers = generate(words, 2048)
    assert after[:4].any() and len(set(numbers.tolist())) == 2048
    carried = np.array([0, 0, 0, 0, 0, 0, 0, ONES - 1, 1 << 63, 0], "uint64")
    after, numbers = generate(carried, 16)
    assert [int(x) for x in after[6:8]] == [1, 2]
    counters = [[0, 0, 0, ONES - 1], [0, 0, 0, ONES], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert (numbers == threefry(np.zeros(4, "uint64"), np.array(counters, "uint64")).reshape(-1)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_uniform(dtype):
    low, high = np.array(-2.0, dtype), np.array(3.0, dtype)
    after, got = get_kernel("random.uniform")(key(11), low, high, out_shape=(100, 200), out_dtype=dtype)
    assert got.dtype == dtype and got.shape == (100, 200) and (after != key(11)).any()
    assert got.min() >= -2 and got.max() < 3
    assert scipy.stats.kstest(got.reshape(-1), "uniform", (-2, 5)).pvalue > 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_normal(dtype):
    mean, scale = np.array(5.0, dtype), np.array(2.0, dtype)
    _, got = get_kernel("random.normal")(key(12), mean, scale, out_shape=(20000,), out_dtype=dtype)
    assert got.dtype == dtype and np.isfinite(got).all()
    assert scipy.stats.kstest(got, "norm", (5, 2)).pvalue > 0.01


def test_multinomial_draws_by_its_probabilities():
    probs = np.array([[1.0, 0.0, 3.0], [-5.0, 2.0, 2.0]], "float32")
    _, got = get_kernel("random.multinomial")(key(13), probs, num_samples=20000)
    assert got.dtype == np.int32 and got.shape == (2, 20000)
    np.testing.assert_allclose(np.bincount(got[0], minlength=3) / 20000, [0.25, 0, 0.75], atol=0.01)
    np.testing.assert_allclose(np.bincount(got[1], minlength=3) / 20000, [0, 0.5, 0.5], atol=0.01)


def test_types_are_a_key_and_the_numbers():
    made = relay.random.threefry_key(1)
    assert infer_expr(relay.random.threefry_generate(made, (12,))) == relay.TupleType(
        [KEY, relay.TensorType((12,), "uint64")]
    )
    assert infer_expr(relay.random.threefry_split(made)) == relay.TupleType([KEY, KEY])
    for function in (relay.random.uniform, relay.random.normal):
        call = function(made, [3, 4], "float64")
        assert infer_expr(call) == relay.TupleType([KEY, relay.TensorType((3, 4), "float64")])
        assert call.attrs.out_dtype == "float64"
    drawn = relay.random.multinomial(made, relay.var("p", shape=(2, 5)), num_samples=7)
    assert infer_expr(drawn) == relay.TupleType([KEY, relay.TensorType((2, 7), "int32")])


def test_what_is_no_key_is_refused():
    short = relay.const(np.zeros(5, "uint64"))
    with pytest.raises(TypeInferenceError, match="made by random.threefry_key"):
        infer_expr(relay.random.threefry_generate(short, (4,)))
    with pytest.raises(UserError, match="a seed is in 0 to"):
        relay.random.threefry_key(-1)
