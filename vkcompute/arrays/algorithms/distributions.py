"""Kernels that fill arrays with random numbers.

Each invocation has a block of numbers of its own: Philox 4x32-10 of the block's number, and of an attempt where numbers
are rejected. Large variates are computed as differences from their mean, which float32 holds exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.jit.library.ids import global_id
from vkcompute.jit.library.random import angle, fractions, philox, radius

_TAIL = 1e30  # a logarithm of practically 0
_MOST_ATTEMPTS = 1000
"""Draws, of which fewer than half are rejected: the last one is so with a probability below 2**-1000.

Drivers that cut long loops know that this one is short.
"""
_MOST_EVENTS = 128
"""Events of a mean below 10, by blocks of four: more have a probability below exp(-10) (10 e / 128)**128, or 2**-300.

H. Chernoff: A measure of asymptotic efficiency for tests of a hypothesis. 1952; for Poisson and binomial variates.
"""


def words(low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, attempt: Any) -> Any:
    """Returns the four words of a block and attempt."""
    first = low + np.uint32(i)
    return philox((first, high + np.uint32(first < low), np.uint32(attempt), stream), (key0, key1))


def open_logarithm(word: Any) -> Any:
    """Returns the logarithm of a uniform number in (0, 1), with all 32 bits."""
    upper, lower = np.float32(np.int32(word >> 8)), np.float32(np.int32(word & 255))
    return np.log((upper + (lower + np.float32(0.5)) * np.float32(2.0**-8)) * np.float32(2.0**-24))


def centred(word: Any) -> Any:
    """Returns an odd multiple of 2**-25 in (-0.5, 0.5); exact."""
    return np.float32(2 * np.int32(word >> 8) + 1 - 2**24) * np.float32(2.0**-25)


def double(first: Any, second: Any) -> Any:
    """Returns a multiple of 2**-53 in [0, 1); exact."""
    upper = np.float64(first >> 5) * 67108864.0
    return (upper + np.float64(second >> 6)) * np.float64(2.0**-53)


def fill_uniform(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with float32 in [0, 1)."""
    i = global_id(0)
    if 4 * i < out.size:
        drawn = words(low, high, stream, key0, key1, i, 0)
        for j in range(4):
            if 4 * i + j < out.size:
                out[4 * i + j] = fractions(drawn[j])


def fill_uniform_double(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with float64 in [0, 1)."""
    i = global_id(0)
    if 2 * i < out.size:
        x, y, z, w = words(low, high, stream, key0, key1, i, 0)
        out[2 * i] = double(x, y)
        if 2 * i + 1 < out.size:
            out[2 * i + 1] = double(z, w)


def fill_normal(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with normal float32, by Box and Muller."""
    i = global_id(0)
    if 4 * i < out.size:
        x, y, z, w = words(low, high, stream, key0, key1, i, 0)
        r, s, a, b = radius(x), radius(z), angle(y), angle(w)
        drawn = r * np.cos(a), r * np.sin(a), s * np.cos(b), s * np.sin(b)
        for j in range(4):
            if 4 * i + j < out.size:
                out[4 * i + j] = drawn[j]


def fill_normal_double(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with normal float64, by Box and Muller."""
    i = global_id(0)
    if 2 * i < out.size:
        x, y, z, w = words(low, high, stream, key0, key1, i, 0)
        r = np.sqrt(-2.0 * np.log(1.0 - double(x, y)))
        a = 2 * math.pi * (double(z, w) - 0.5)
        out[2 * i] = r * np.cos(a)
        if 2 * i + 1 < out.size:
            out[2 * i + 1] = r * np.sin(a)


def fill_exponential(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with float32 of the exponential distribution with mean 1."""
    i = global_id(0)
    if 4 * i < out.size:
        drawn = words(low, high, stream, key0, key1, i, 0)
        for j in range(4):
            if 4 * i + j < out.size:
                out[4 * i + j] = -open_logarithm(drawn[j])


def fill_exponential_double(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any) -> None:
    """Fills with float64 of the exponential distribution with mean 1."""
    i = global_id(0)
    if 2 * i < out.size:
        x, y, z, w = words(low, high, stream, key0, key1, i, 0)
        out[2 * i] = -np.log(1.0 - double(x, y))
        if 2 * i + 1 < out.size:
            out[2 * i + 1] = -np.log(1.0 - double(z, w))


def fill_integers(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, spans: Any, limits: Any) -> None:
    """Fills with uint32 from 0 to `spans`; words above `limits` are rejected, since remainders would be biased."""
    i = global_id(0)
    drawn = words(low, high, stream, key0, key1, i, 0)
    for j in range(4):
        if 4 * i + j < out.size:
            word, span = drawn[j], spans[4 * i + j]
            for attempt in range(1, _MOST_ATTEMPTS):
                if word <= limits[4 * i + j]:
                    break
                word = words(low, high, stream, key0, key1, i, attempt)[j]
            out[4 * i + j] = word if span == np.uint32(0xFFFFFFFF) else word % (span + np.uint32(1))


def fill_long_integers(
    out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, spans: Any, limits: Any
) -> None:
    """Fills with uint64 from 0 to `spans`, as `fill_integers`."""
    i = global_id(0)
    if i < out.size:
        x, y, _, _ = words(low, high, stream, key0, key1, i, 0)
        word, span = np.uint64(y) << np.uint64(32) | np.uint64(x), spans[i]
        for attempt in range(1, _MOST_ATTEMPTS):
            if word <= limits[i]:
                break
            x, y, _, _ = words(low, high, stream, key0, key1, i, attempt)
            word = np.uint64(y) << np.uint64(32) | np.uint64(x)
        out[i] = word if span == np.uint64(0xFFFFFFFFFFFFFFFF) else word % (span + np.uint64(1))


def gamma_variate(low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, tag: Any, shape: Any) -> Any:
    """Returns a gamma variate of a shape of at least 1, and the logarithm of its factor for smaller shapes.

    G. Marsaglia, W. Tsang: A simple method for generating gamma variables. ACM TOMS 26, 2000.

    Args:
        tag: 0, or another number for an independent variate of the same block.
    """
    boost = np.float32(0)
    d = shape - np.float32(1 / 3)
    if shape < 1:
        d = shape + np.float32(2 / 3)
        x, _, _, _ = words(low, high, stream, key0, key1, i, tag)
        boost = max(open_logarithm(x) / shape, np.float32(-_TAIL)) if shape > 0 else np.float32(-_TAIL)
    c = np.float32(1) / (np.float32(3) * np.sqrt(d))
    variate = np.float32(-1)
    for attempt in range(1, _MOST_ATTEMPTS):
        if variate >= 0:
            break
        x, y, z, _ = words(low, high, stream, key0, key1, i, 2 * attempt + tag)
        normal = radius(x) * np.cos(angle(y))
        v = np.float32(1) + c * normal
        v = v * v * v
        if v > 0 and open_logarithm(z) < np.float32(0.5) * normal * normal + d * (np.float32(1) - v + np.log(v)):
            variate = d * v
    return variate, boost


def _flushed(x: Any) -> Any:
    """Returns 0 for subnormal numbers, so that results are the same on devices without them."""
    return x if x >= np.float32(2**-126) else np.float32(0)


def fill_gamma(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, shapes: Any) -> None:
    """Fills with gamma variates of scale 1."""
    i = global_id(0)
    if i < out.size:
        value, boost = gamma_variate(low, high, stream, key0, key1, i, 0, shapes[i])
        out[i] = _flushed(value * _flushed(np.exp(boost)))


def fill_beta(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, a: Any, b: Any) -> None:
    """Fills with beta variates: the share of one gamma variate in the sum of two."""
    i = global_id(0)
    if i < out.size:
        x, p = gamma_variate(low, high, stream, key0, key1, i, 0, a[i])
        y, q = gamma_variate(low, high, stream, key0, key1, i, 1, b[i])
        top = max(p, q)
        x, y = _flushed(x * _flushed(np.exp(p - top))), _flushed(y * _flushed(np.exp(q - top)))
        if max(x, y) > 1:  # the sum of the two may be beyond the range of float32
            x *= np.float32(0.5)
            y *= np.float32(0.5)
        out[i] = _flushed(x / (x + y))


def deviance(x: Any, mean: Any, difference: Any) -> Any:
    """Returns x log(x / mean) - difference, for the difference x - mean, without cancellation.

    C. Loader: Fast and accurate computation of binomial probabilities. 2000, section 3.
    """
    result = mean
    if x > 0:
        v = difference / (x + mean)
        if abs(v) < np.float32(0.1):
            square, power = v * v, np.float32(2) * x * v
            result = difference * v
            for j in range(1, 5):
                power *= square
                result += power / np.float32(2 * j + 1)
        else:
            result = x * np.log(x / mean) - difference
    return result


def stirling(x: Any) -> Any:
    """Returns log(x!) less Stirling's approximation, for x of at least 1."""
    inverse = np.float32(1) / x
    square = inverse * inverse
    rest = np.float32(1 / 360) - square * (np.float32(1 / 1260) - square / np.float32(1680))
    return inverse * (np.float32(1 / 12) - square * rest)


def small_poisson(low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, mean: Any) -> Any:
    """Returns the number of exponential waiting times within `mean`."""
    left, count = mean, -1
    for attempt in range(_MOST_EVENTS // 4):
        if left < 0:
            break
        drawn = words(low, high, stream, key0, key1, i, attempt)
        for j in range(4):
            if left >= 0:
                left += open_logarithm(drawn[j])
                count += 1
    return count


def large_poisson(low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, mean: Any, fraction: Any) -> Any:
    """Returns the difference of a Poisson variate from the whole part of its mean, of at least 10.

    W. Hoermann: The transformed rejection method for generating Poisson random variables. 1993, algorithm PTRS.
    """
    root = np.sqrt(mean)
    b = np.float32(0.931) + np.float32(2.53) * root
    a = np.float32(-0.059) + np.float32(0.02483) * b
    scale = np.float32(1.1239) + np.float32(1.1328) / (b - np.float32(3.4))
    inside = np.float32(0.9277) - np.float32(3.6224) / (b - np.float32(2))
    offset, done = np.float32(0), False
    for attempt in range(_MOST_ATTEMPTS):
        if done:
            break
        x, y, _, _ = words(low, high, stream, key0, key1, i, attempt)
        u, v = centred(x), fractions(y)
        us = np.float32(0.5) - abs(u)
        offset = np.floor((np.float32(2) * a / us + b) * u + fraction + np.float32(0.43))
        if us >= np.float32(0.07) and v <= inside:
            done = True
        else:
            k, difference = offset - fraction + mean, offset - fraction
            if k > np.float32(-0.5) and (us >= np.float32(0.013) or v <= us):
                bound = -mean
                if k > np.float32(0.5):
                    whole = np.float32(np.rint(k)) if k < np.float32(1e6) else k
                    bound = (
                        -deviance(whole, mean, difference)
                        - stirling(whole)
                        - np.float32(0.5) * np.log(np.float32(2 * math.pi) * whole)
                    )
                done = open_logarithm(y) + np.log(scale / (a / (us * us) + b)) <= bound
    return offset


def fill_poisson(
    out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, wholes: Any, fractional: Any
) -> None:
    """Fills with Poisson variates; means are given as whole and fractional parts."""
    i = global_id(0)
    if i < out.size:
        mean = np.float32(wholes[i]) + fractional[i]
        if mean <= 0:
            out[i] = 0
        elif mean < 10:
            out[i] = small_poisson(low, high, stream, key0, key1, i, mean)
        else:
            offset = large_poisson(low, high, stream, key0, key1, i, mean, fractional[i])
            out[i] = wholes[i] + np.int32(offset)


def small_binomial(low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, n: Any, p: Any) -> Any:
    """Returns the number of successes in `n` trials, by the trials up to each success.

    L. Devroye: Non-uniform random variate generation. 1986, section X.4.3.
    """
    left, count = n, -1
    rate = np.log1p(-p)
    for attempt in range(_MOST_EVENTS // 4):
        if left < 0:
            break
        drawn = words(low, high, stream, key0, key1, i, attempt)
        for j in range(4):
            if left >= 0:
                left -= np.floor(open_logarithm(drawn[j]) / rate) + np.float32(1)
                count += 1
    return count


def large_binomial(
    low: Any, high: Any, stream: Any, key0: Any, key1: Any, i: Any, n: Any, p: Any, mode: Any, beyond: Any
) -> Any:
    """Returns the difference of a binomial variate from its mode, for a mean of at least 10.

    W. Hoermann: The generation of binomial random variates. 1993, algorithm BTRS.

    Args:
        mode: floor((n + 1) p).
        beyond: mode - n p.
    """
    q, mean = np.float32(1) - p, n * p
    deviation = np.sqrt(mean * q)
    b = np.float32(1.15) + np.float32(2.53) * deviation
    a = np.float32(-0.0873) + np.float32(0.0248) * b + np.float32(0.01) * p
    inside = np.float32(0.92) - np.float32(4.2) / b
    alpha = (np.float32(2.83) + np.float32(5.1) / b) * deviation
    top = binomial_logarithm(n, mean, n * q, mode, beyond)
    offset, done = np.float32(0), False
    for attempt in range(_MOST_ATTEMPTS):
        if done:
            break
        x, y, _, _ = words(low, high, stream, key0, key1, i, attempt)
        u, v = centred(x), fractions(y)
        us = np.float32(0.5) - abs(u)
        offset = np.floor((np.float32(2) * a / us + b) * u + np.float32(0.5) - beyond)
        k = mode + offset
        if us >= np.float32(0.07) and v <= inside:
            done = True
        elif k > np.float32(-0.5) and k < n + np.float32(0.5):
            bound = binomial_logarithm(n, mean, n * q, k, offset + beyond) - top
            done = open_logarithm(y) + np.log(alpha / (a / (us * us) + b)) <= bound
    return offset


def binomial_logarithm(n: Any, mean: Any, other: Any, k: Any, difference: Any) -> Any:
    """Returns the logarithm of a binomial probability, up to a constant of `n`; `other` is n less the mean."""
    rest = n - k
    logarithm = -deviance(k, mean, difference) - deviance(rest, other, -difference)
    if k > 0:
        logarithm -= stirling(k) + np.float32(0.5) * np.log(k)
    else:
        logarithm += np.float32(0.5 * math.log(2 * math.pi))
    if rest > 0:
        logarithm -= stirling(rest) + np.float32(0.5) * np.log(rest)
    else:
        logarithm += np.float32(0.5 * math.log(2 * math.pi))
    return logarithm


def fill_binomial(
    out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, trials: Any, signs: Any, modes: Any, p: Any,
    beyond: Any,
) -> None:  # fmt: skip
    """Fills with binomial variates, for probabilities of at most 0.5: failures where `signs` are negative."""
    i = global_id(0)
    if i < out.size:
        n, successes = np.float32(trials[i]), trials[i] - trials[i]
        if n * p[i] >= 10:
            mode = np.float32(modes[i])
            successes = modes[i] + np.int32(large_binomial(low, high, stream, key0, key1, i, n, p[i], mode, beyond[i]))
        elif p[i] > 0:
            successes += small_binomial(low, high, stream, key0, key1, i, n, p[i])
        out[i] = trials[i] - successes if signs[i] < 0 else successes


def fill_choice(out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, sums: Any, last: Any) -> None:
    """Fills with indices, by a table of cumulative probabilities in multiples of 2**-32."""
    i = global_id(0)
    drawn = words(low, high, stream, key0, key1, i, 0)
    for j in range(4):
        if 4 * i + j < out.size:
            word, start, stop = drawn[j], 0, sums.size
            while start < stop:
                middle = (start + stop) // 2
                if sums[middle] <= word:
                    start = middle + 1
                else:
                    stop = middle
            out[4 * i + j] = min(start, last)


def fill_permutation(
    out: Any, low: Any, high: Any, stream: Any, key0: Any, key1: Any, first: Any, n: Any, rounds: Any
) -> None:
    """Fills with elements of a permutation of 0 to n - 1, from `first` on.

    V. Hoang, B. Morris, P. Rogaway: An enciphering scheme based on a card shuffle. CRYPTO 2012 ("swap-or-not").
    """
    i = global_id(0)
    if i < out.size:
        at = first + i
        for step in range(rounds):
            centre, _, _, _ = words(low, high, stream, key0, key1, 0, 2 * step)
            other = np.int32(centre % np.uint32(n)) - at
            other = other + n if other < 0 else other
            bits, _, _, _ = words(low, high, stream, key0, key1, max(at, other), 2 * step + 1)
            at = other if bits & np.uint32(1) else at
        out[i] = at


def gather(out: Any, x: Any, indices: Any) -> None:
    """Copies the rows of a matrix at these indices."""
    column, row = global_id(0), global_id(1)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = x[indices[row], column]
