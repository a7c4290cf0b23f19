"""Numpy kernels of random numbers: Threefry-4x64 with 20 rounds over a key of ten 64-bit words.

A key is ``[k0 k1 k2 k3 | p0 p1 | c0 c1 | b0 b1]``: key, path, counter (its lower word last) and the bit of the path
that the next split sets. Block *n* of four random words is the hash of path and counter + n under the key. Sources:
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", tables 2 and 3; Claessen and Palka, "Splittable
pseudorandom number generators using cryptographic hashing".
"""

from __future__ import annotations

import math

import numpy as np

from byoc.runtime.kernels.core.registry import kernel

ROUNDS = 20
ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
PARITY = 0x1BD11BDAA9FC1A22
MASK, FULL = 2**64 - 1, 2**128
FIRST_BIT = 1 << 127


def _rotated(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def threefry(key: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """key: uint64[4], blocks: uint64[n, 4] -> uint64[n, 4], each block hashed."""
    with np.errstate(over="ignore"):
        schedule = [*key, np.uint64(PARITY) ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
        x = [blocks[:, k].copy() for k in range(4)]
        for round_number in range(ROUNDS + 1):
            if round_number % 4 == 0:
                step = round_number // 4
                x = [word + schedule[(step + k) % 5] for k, word in enumerate(x)]
                x[3] = x[3] + np.uint64(step)
            if round_number == ROUNDS:
                break
            first, second = ROTATIONS[round_number % 8]
            a, b = x[0] + x[1], x[2] + x[3]
            x = [a, _rotated(x[3], second) ^ b, b, _rotated(x[1], first) ^ a]
    return np.stack(x, axis=1)


def _number(words: np.ndarray) -> int:
    return int(words[0]) << 64 | int(words[1])


def _words(number: int) -> list[int]:
    return [number >> 64 & MASK, number & MASK]


def _with_new_key(key: np.ndarray, counter: int) -> np.ndarray:
    """A key of its own: the hash of the path and *counter*, with an empty path and counter."""
    block = np.array([[*key[4:6], *_words(counter)]], np.uint64)
    return np.concatenate([threefry(key[:4], block)[0], np.array([0, 0, 0, 0, *_words(FIRST_BIT)], np.uint64)])


def generate(key: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The next key, and random words ``uint64[shape]``."""
    count = math.prod(shape)
    blocks = -(-count // 4)
    start = _number(key[6:8])
    if start + blocks >= FULL - 1:  # the counter of all ones makes new keys alone
        key, start = _with_new_key(key, FULL - 1), 0
    counters = np.empty((blocks, 4), np.uint64)
    counters[:, 0:2] = key[4:6]
    low = np.arange(blocks, dtype=np.uint64)
    with np.errstate(over="ignore"):
        counters[:, 3] = np.uint64(start & MASK) + low
        counters[:, 2] = np.uint64(start >> 64) + (counters[:, 3] < low)
    after = key.copy()
    after[6:8] = _words(start + blocks)
    return after, threefry(key[:4], counters).reshape(-1)[:count].reshape(shape)


def uniform_numbers(
    key: np.ndarray, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...], dtype: str
) -> tuple[np.ndarray, np.ndarray]:
    """The next key, and numbers in [low, high) made of as many random bits as *dtype* has in its fraction."""
    after, words = generate(key, shape)
    whole: type[np.unsignedinteger]
    whole, fraction, one = (np.uint32, 23, 127) if dtype == "float32" else (np.uint64, 52, 1023)
    bits: np.ndarray = np.right_shift(words.astype(whole), whole(np.dtype(whole).itemsize * 8 - fraction))
    unit = (bits | whole(one << fraction)).view(dtype) - np.dtype(dtype).type(1)
    start, span = low.reshape(()).astype(dtype), (high - low).reshape(()).astype(dtype)
    return after, np.asarray(unit * span + start, dtype)


@kernel("random.threefry_generate")
def threefry_generate(key: np.ndarray, *, out_shape: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Random 64-bit words, after the next key."""
    return generate(key, out_shape)


@kernel("random.threefry_split")
def threefry_split(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two keys: the next bit of the path is 0 in one and 1 in the other.

    A key that has generated numbers, or whose path is full, is hashed first, so that no block is used twice.
    """
    counter = _number(key[6:8])
    if counter or not _number(key[8:10]):
        key = _with_new_key(key, counter)
    bit = _number(key[8:10])
    left, right = key.copy(), key.copy()
    right[4:6] = _words(_number(key[4:6]) | bit)
    left[8:10] = right[8:10] = _words(bit >> 1)
    return left, right


@kernel("random.uniform")
def uniform(
    key: np.ndarray, low: np.ndarray, high: np.ndarray, *, out_shape: tuple[int, ...] = (), out_dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Uniform numbers in [low, high)."""
    return uniform_numbers(key, low, high, out_shape, out_dtype)


@kernel("random.normal")
def normal(
    key: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    *,
    out_shape: tuple[int, ...] = (),
    out_dtype: str = "float32",
) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers by the transform of Box and Muller, of two uniform ones each."""
    zero, unit = np.zeros((), out_dtype), np.ones((), out_dtype)
    after, (first, second) = uniform_numbers(key, zero, unit, (2, *out_shape), out_dtype)
    radius = np.sqrt(-2 * np.log(1 - first))
    value = radius * np.sin(np.asarray(2 * np.pi, out_dtype) * second)
    return after, np.asarray(value * scale.reshape(()) + mean.reshape(()), out_dtype)


@kernel("random.uniform_like")
def uniform_like(
    key: np.ndarray, low: np.ndarray, high: np.ndarray, like: np.ndarray, *, out_dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Uniform numbers in [low, high), as many as *like* has."""
    return uniform_numbers(key, low, high, like.shape, out_dtype)


@kernel("random.normal_like")
def normal_like(
    key: np.ndarray, mean: np.ndarray, scale: np.ndarray, like: np.ndarray, *, out_dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers, as many as *like* has."""
    return normal(key, mean, scale, out_shape=like.shape, out_dtype=out_dtype)


@kernel("random.multinomial")
def multinomial(key: np.ndarray, probs: np.ndarray, *, num_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """For each sample the first index whose cumulated probability exceeds a uniform number."""
    weights = np.maximum(probs.astype(np.float32), 0)
    with np.errstate(all="ignore"):
        cumulated = np.cumsum(weights / weights.sum(-1, keepdims=True), -1)
    cumulated = np.where(cumulated >= cumulated[..., -1:], np.float32(1), cumulated)  # the last that has any
    zero, unit = np.zeros((), "float32"), np.ones((), "float32")
    after, numbers = uniform_numbers(key, zero, unit, (*probs.shape[:-1], num_samples), "float32")
    indices = (cumulated[..., None, :] <= numbers[..., None]).sum(-1)
    return after, indices.astype("int32")
