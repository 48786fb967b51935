"""Numba's random numbers in kernels: xoroshiro128+ with a state per thread. The numbers are Numba's.

Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", 2018; states are 2**64 numbers apart.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray
from vkcompute.compat.numba.cuda.factories import to_device
from vkcompute.compat.numba.types import float32, float64, uint64

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
_JUMP = 0xBEAC0467EBA5FACB, 0xD86B048B86AA9922
_MASK = (1 << 64) - 1
_TWO_PI_32 = np.float32(2 * math.pi)
_TWO_PI_64 = np.float64(2 * math.pi)
_UNIT = 1.0 / (1 << 53)
_Words = tuple[int, int]


class States(DeviceNDArray):
    """States of generators, one per thread."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Records of the two words."""
        return xoroshiro128p_dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of states."""
        return self.array.shape[:1]

    @property
    def size(self) -> int:
        """The number of states."""
        return self.array.shape[0]

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Returns the states as records."""
        states = self.array.numpy().view(xoroshiro128p_dtype)[:, 0]
        if ary is None:
            return states
        ary[...] = states
        return ary


# -- on the host ------------------------------------------------------------------------------------------------------


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> States:
    """Makes `n` states of one seed, 2**64 numbers apart, from the one of number `subsequence_start` on."""
    return States(to_device(_states(n, seed, subsequence_start)).array)


def init_xoroshiro128p_states(states: States, seed: int, subsequence_start: int = 0, stream: Any = 0) -> None:
    """Sets states to those of a seed, in place."""
    states.array.write(_states(states.size, seed, subsequence_start))


def _states(n: int, seed: int, start: int) -> np.ndarray[Any, Any]:
    """Returns the words of `n` states as an array of shape (n, 2)."""
    first = _seeded(int(seed) & _MASK)
    table = _table_of(tuple(_jumped(_bit(at)) for at in range(128)))
    states: np.ndarray[Any, Any] = np.array([first], np.uint64)
    power, left = table, start
    while left:
        states = _applied(power, states) if left & 1 else states
        power, left = _squared(power), left >> 1
    while len(states) < n:  # as many more, by a jump over all of these
        states = np.concatenate([states, _applied(table, states)])
        table = _squared(table)
    kept: np.ndarray[Any, Any] = states[:n].copy()
    return kept


def _seeded(seed: int) -> _Words:
    """Returns the state of a seed, by SplitMix64."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    z ^= z >> 31
    return z, z


def _next(state: _Words) -> _Words:
    s0, s1 = state
    s1 ^= s0
    return _rotated(s0, 55) ^ s1 ^ (s1 << 14 & _MASK), _rotated(s1, 36)


def _rotated(x: int, k: int) -> int:
    return (x << k | x >> (64 - k)) & _MASK


def _bit(at: int) -> _Words:
    return (1 << at, 0) if at < 64 else (0, 1 << (at - 64))


@cache
def _jumped(state: _Words) -> _Words:
    """Returns the state after 2**64 numbers."""
    s0 = s1 = 0
    for word in _JUMP:
        for b in range(64):
            if word >> b & 1:
                s0, s1 = s0 ^ state[0], s1 ^ state[1]
            state = _next(state)
    return s0, s1


def _table_of(columns: Any) -> np.ndarray[Any, Any]:
    """Returns a linear map of states as tables: (byte of the state, its value) -> what it adds to the result."""
    table = np.zeros((16, 256, 2), np.uint64)
    for at, column in enumerate(columns):
        byte, bit = divmod(at, 8)
        table[byte, 1 << bit : 2 << bit] = table[byte, : 1 << bit] ^ np.array(column, np.uint64)
    return table


def _applied(table: np.ndarray[Any, Any], states: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    parts = states.astype("<u8").view(np.uint8).reshape(len(states), 16)
    result = np.zeros_like(states)
    for byte in range(16):
        result ^= table[byte, parts[:, byte]]
    return result


def _squared(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns a map applied twice."""
    columns = np.array([_bit(at) for at in range(128)], np.uint64)
    return _table_of(_applied(table, _applied(table, columns)))


# -- in kernels -------------------------------------------------------------------------------------------------------


def rotl(x: Any, k: Any) -> Any:
    """Rotates the bits of a uint64 to the left."""
    return (x << uint64(k)) | (x >> uint64(64 - k))


def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Returns the next uint64 of a state, and advances it."""
    s0 = states[index, 0]
    s1 = states[index, 1]
    result = s0 + s1
    s1 ^= s0
    states[index, 0] = rotl(s0, 55) ^ s1 ^ (s1 << uint64(14))
    states[index, 1] = rotl(s1, 36)
    return result


def xoroshiro128p_jump(states: Any, index: Any) -> None:
    """Advances a state by 2**64 numbers."""
    s0 = uint64(0)
    s1 = uint64(0)
    for word in _JUMP:
        for b in range(64):
            if (uint64(word) >> uint64(b)) & uint64(1):
                s0 ^= states[index, 0]
                s1 ^= states[index, 1]
            xoroshiro128p_next(states, index)
    states[index, 0] = s0
    states[index, 1] = s1


def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Returns a float32 in [0, 1), and advances the state."""
    return float32(xoroshiro128p_uniform_float64(states, index))


def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Returns a float64 in [0, 1), and advances the state."""
    return (xoroshiro128p_next(states, index) >> uint64(11)) * _UNIT


def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Returns a normally distributed float32, and advances the state twice."""
    u1 = xoroshiro128p_uniform_float32(states, index)
    u2 = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(float32(-2.0) * math.log(u1)) * math.cos(_TWO_PI_32 * u2)


def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Returns a normally distributed float64, and advances the state twice."""
    u1 = xoroshiro128p_uniform_float64(states, index)
    u2 = xoroshiro128p_uniform_float64(states, index)
    return math.sqrt(float64(-2.0) * math.log(u1)) * math.cos(_TWO_PI_64 * u2)
