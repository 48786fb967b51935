"""Kernels of known algorithms on words, numbers and sequences, against other implementations of them.

Those that the simulator takes seconds for run on the device only.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import itertools
import math
import zlib
from typing import Any

import numpy as np
import pytest
from host import run

import vkcompute as vc

HostArray = np.ndarray[Any, Any]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


# -- hashes and codes -----------------------------------------------------------------------------------------------

PRIMES = tuple(n for n in range(2, 312) if all(n % d for d in range(2, math.isqrt(n) + 1)))


def root_bits(n: int, power: int) -> int:
    """The first 32 bits of the fraction of the square root or the cube root of `n`."""
    scaled, low, high = n << 32 * power, 0, 1 << 40
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= scaled else (low, middle)
    return low & 0xFFFFFFFF


ROUND_CONSTANTS = tuple(root_bits(n, 3) for n in PRIMES[:64])
START = np.array([root_bits(n, 2) for n in PRIMES[:8]], np.uint32)


def rotated(x, n):
    return (x >> n) | (x << (32 - n))


@vc.kernel
def sha256(blocks, out):
    i = vc.global_id(0)
    if i >= out.shape[0]:
        return
    w = vc.local((64,), vc.uint32)
    for k in range(16):
        for byte in range(4):
            w[k] = w[k] << 8 | vc.uint32(blocks[i, 4 * k + byte])
    for k in range(16, 64):
        one = rotated(w[k - 15], 7) ^ rotated(w[k - 15], 18) ^ (w[k - 15] >> 3)
        two = rotated(w[k - 2], 17) ^ rotated(w[k - 2], 19) ^ (w[k - 2] >> 10)
        w[k] = w[k - 16] + one + w[k - 7] + two
    a, b, c, d = START[0], START[1], START[2], START[3]
    e, f, g, h = START[4], START[5], START[6], START[7]
    for k in range(64):
        one = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (e & f ^ ~e & g)
        one += vc.uint32(ROUND_CONSTANTS[k]) + w[k]
        two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a & b ^ a & c ^ b & c)
        h, g, f, e, d, c, b, a = g, f, e, d + one, c, b, a, one + two
    for k, v in enumerate((a, b, c, d, e, f, g, h)):
        out[i, k] = v + START[k]


@pytest.mark.device_only
def test_sha256(gpu: Any, random: np.random.Generator) -> None:
    messages = random.integers(0, 256, (20, 55), np.uint8)
    blocks = np.zeros((20, 64), np.uint8)
    blocks[:, :55], blocks[:, 55] = messages, 0x80
    blocks[:, 62:] = divmod(55 * 8, 256)
    result = run(gpu, sha256, 20, np.zeros((20, 8), np.uint32), blocks)
    assert [array.astype(">u4").tobytes() for array in result] == [
        hashlib.sha256(message).digest() for message in messages
    ]


def shifted_8(c: int) -> int:
    for _ in range(8):
        c = c >> 1 ^ (0xEDB88320 if c & 1 else 0)
    return c


CRC_TABLE = np.array([shifted_8(n) for n in range(256)], np.uint32)


@vc.kernel
def crc32(data, out):
    i = vc.global_id(0)
    if i < out.size:
        c = vc.uint32(0xFFFFFFFF)
        for byte in data[i]:
            c = CRC_TABLE[(c ^ byte) & 0xFF] ^ (c >> 8)
        out[i] = ~c


def test_crc32(gpu: Any, random: np.random.Generator) -> None:
    data = random.integers(0, 256, (37, 50), np.uint8)
    result = run(gpu, crc32, 37, np.zeros(37, np.uint32), data)
    assert result.tolist() == [zlib.crc32(array.tobytes()) for array in data]


ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
PADDING = ord("=")


@vc.kernel
def base64_encoded(data, out):
    i = vc.global_id(0)
    if 4 * i < out.size:
        word = sum(vc.int32(data[3 * i + k]) << 8 * (2 - k) for k in range(3) if 3 * i + k < data.size)
        for k in range(4):
            out[4 * i + k] = ALPHABET[word >> 6 * (3 - k) & 63] if 3 * i + k - 1 < data.size or k == 0 else PADDING


@pytest.mark.parametrize("length", [1, 2, 3, 100])
def test_base64(gpu: Any, random: np.random.Generator, length: int) -> None:
    data = random.integers(0, 256, length, np.uint8)
    expected = base64.b64encode(data.tobytes())
    assert run(gpu, base64_encoded, 64, np.zeros(len(expected), np.uint8), data).tobytes() == expected


@vc.kernel
def split_mix(seed, out):
    i = vc.global_id(0)
    if i < out.size:
        z = seed + vc.uint64(i + 1) * 0x9E3779B97F4A7C15
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB
        out[i] = z ^ (z >> 31)


def test_split_mix(gpu: Any) -> None:
    seed, expected = 2**63 + 12345, []
    for k in range(70):
        z = seed + (k + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
        expected.append(z ^ z >> 31)
    assert run(gpu, split_mix, 70, np.zeros(70, np.uint64), np.uint64(seed)).tolist() == expected


@vc.kernel
def fowler_noll_vo(words, out):
    i = vc.global_id(0)
    if i < out.size:
        h = vc.uint64(0xCBF29CE484222325)
        for k in range(8):
            h = (h ^ (words[i] >> 8 * k & 0xFF)) * 0x100000001B3
        out[i] = h ^ (words[i] >> (4 - i)) ^ (1 << words[i])


def test_fowler_noll_vo(gpu: Any, random: np.random.Generator) -> None:
    words, expected = random.integers(0, 2**63, 9, np.uint64) >> np.arange(56, -1, -7).astype(np.uint64), []
    for i, word in enumerate(words.tolist()):
        h = 0xCBF29CE484222325
        for byte in word.to_bytes(8, "little"):
            h = (h ^ byte) * 0x100000001B3 & 2**64 - 1
        expected.append(h ^ (word >> 4 - i if i <= 4 else 0) ^ (1 << word if word < 64 else 0))
    assert run(gpu, fowler_noll_vo, 9, np.zeros(9, np.uint64), words).tolist() == expected


# -- numbers --------------------------------------------------------------------------------------------------------


@vc.kernel
def civil_dates(days, out):
    """Howard Hinnant's algorithm: https://howardhinnant.github.io/date_algorithms.html#civil_from_days."""
    i = vc.global_id(0)
    if i < days.size:
        era, day = divmod(days[i] + 719468, 146097)
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        day_of_year = day - (365 * year + year // 4 - year // 100)
        month = (5 * day_of_year + 2) // 153
        out[i, 2] = day_of_year - (153 * month + 2) // 5 + 1
        out[i, 1] = month + (3 if month < 10 else -9)
        out[i, 0] = year + era * 400 + (out[i, 1] <= 2)


def test_civil_dates(gpu: Any, random: np.random.Generator) -> None:
    days = random.integers(-700_000, 700_000, 200).astype(np.int32)
    start = datetime.date(1970, 1, 1)
    expected = [start + datetime.timedelta(int(n)) for n in days]
    result = run(gpu, civil_dates, 200, np.zeros((200, 3), np.int32), days)
    assert result.tolist() == [[item.year, item.month, item.day] for item in expected]


def power_modulo(base, exponent, modulus):
    result = vc.uint64(1)
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def is_prime(n):
    """Miller and Rabin's test, with the bases that decide all numbers of 32 bits."""
    if n < 2 or any(n % p == 0 and n != p for p in (2, 3, 5, 7)):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd //= 2
        twos += 1
    for base in (2, 3, 5, 7):
        if base == n:
            continue
        x = power_modulo(vc.uint64(base), odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


@vc.kernel
def primes(numbers, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = is_prime(numbers[i])


def test_primes(gpu: Any) -> None:
    numbers = np.array([*range(120), 2**31 - 1, 4_294_967_291, 4_294_967_295, 3_215_031_751 - 2**24, 25_326_001])
    expected = [n > 1 and all(n % p for p in range(2, math.isqrt(n) + 1)) for n in numbers.tolist()]
    assert (
        run(gpu, primes, len(numbers), np.zeros(len(numbers), np.int32), numbers.astype(np.uint64)).tolist() == expected
    )


@vc.kernel
def divisors(x, y, out):
    i = vc.global_id(0)
    if i < x.size:
        a, b = abs(x[i]), abs(y[i])
        while b:
            a, b = b, a % b
        out[i, 0] = a
        n, steps = abs(x[i]) + 1, 0
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps += 1
        out[i, 1] = steps


def collatz_steps(n: int) -> int:
    return 0 if n == 1 else 1 + collatz_steps(3 * n + 1 if n % 2 else n // 2)


@pytest.mark.device_only
def test_greatest_common_divisors_and_collatz_sequences(gpu: Any, random: np.random.Generator) -> None:
    x, y = random.integers(-5000, 5000, (2, 60)).astype(np.int32)
    expected = [[math.gcd(a, b), collatz_steps(abs(a) + 1)] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert run(gpu, divisors, 60, np.zeros((60, 2), np.int32), x, y).tolist() == expected


@vc.kernel
def bit_tricks(x, out):
    i = vc.global_id(0)
    if i < x.size:
        v, n = x[i], 0
        while v:
            v &= v - 1
            n += 1
        v = x[i]
        for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0xFFFF)):
            v = v >> shift & mask | (v & mask) << shift
        out[i, 0], out[i, 1] = n, v
        out[i, 2], out[i, 3] = x[i] & -x[i], x[i] ^ (x[i] >> 1)


def test_bit_tricks(gpu: Any, random: np.random.Generator) -> None:
    x = np.array([0, 1, 2**31, 2**32 - 1, *random.integers(0, 2**32, 60)], np.uint32)
    expected = [[v.bit_count(), int(f"{v:032b}"[::-1], 2), v & -v, v ^ v >> 1] for v in x.tolist()]
    assert run(gpu, bit_tricks, 64, np.zeros((64, 4), np.uint32), x).tolist() == expected


@vc.kernel
def morton_order(points, out):
    i = vc.global_id(0)
    if i < out.size:
        code = 0
        for axis, coordinate in enumerate(points[i]):
            for bit in range(10):
                code |= (coordinate >> bit & 1) << (3 * bit + axis)
        out[i] = code


def test_morton_order(gpu: Any, random: np.random.Generator) -> None:
    points = random.integers(0, 1024, (40, 3)).astype(np.int32)
    digits = [[f"{v:010b}" for v in row] for row in points.tolist()]
    expected = [int("".join(z + y + x for x, y, z in zip(*row, strict=True)), 2) for row in digits]
    assert run(gpu, morton_order, 40, np.zeros(40, np.int32), points).tolist() == expected


@vc.kernel
def permutations(out):
    i = vc.global_id(0)
    if i < out.shape[0]:
        rest, left = [0, 1, 2, 3, 4], i
        n = len(rest)
        for place in range(n):
            size = 1
            for k in range(2, n - place):
                size *= k
            which, left = divmod(left, size)
            out[i, place] = rest[which]
            for k in range(which, n - 1 - place):
                rest[k] = rest[k + 1]


def test_permutations(gpu: Any) -> None:
    result = run(gpu, permutations, 120, np.zeros((120, 5), np.int32))
    assert [*map(tuple, result.tolist())] == [*itertools.permutations(range(5))]


# -- searches -------------------------------------------------------------------------------------------------------


@vc.kernel
def edit_distances(a, b, out):
    i = vc.global_id(0)
    if i >= out.size:
        return
    row = [0] * 17
    for k in range(17):
        row[k] = k
    for n, letter in enumerate(a[i], 1):
        before, row[0] = row[0], n
        for k in range(1, 17):
            cost = min(row[k] + 1, row[k - 1] + 1, before + (letter != b[i, k - 1]))
            before, row[k] = row[k], cost
    out[i] = row[16]


def edit_distance(a: list[int], b: list[int]) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[0], table[:, 0] = range(len(b) + 1), range(len(a) + 1)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        table[i + 1, j + 1] = min(table[i, j + 1] + 1, table[i + 1, j] + 1, table[i, j] + (a[i] != b[j]))
    return int(table[-1, -1])


def test_edit_distances(gpu: Any, random: np.random.Generator) -> None:
    a, b = (random.integers(0, 4, (12, n)).astype(np.int32) for n in (9, 16))
    expected = [edit_distance(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert run(gpu, edit_distances, 12, np.zeros(12, np.int32), a, b).tolist() == expected


@vc.kernel
def queens(n, out):
    """Counts placements of queens that begin with the columns i // n and i % n, by a search with a stack."""
    i = vc.global_id(0)
    columns = vc.local(8, vc.int32)
    columns[0], columns[1] = i // n, i % n
    count = 0
    row = 2 if i < n * n and abs(columns[0] - columns[1]) > 1 else 0
    columns[2] = -1
    while row >= 2:
        columns[row] += 1
        if columns[row] >= n:
            row -= 1
            continue
        for k in range(row):
            if columns[k] == columns[row] or abs(columns[k] - columns[row]) == row - k:
                break
        else:
            if row == n - 1:
                count += 1
            else:
                row += 1
                columns[row] = -1
    vc.atomic.add(out, 0, count)


@pytest.mark.parametrize(("n", "count"), [(4, 2), (5, 10), (6, 4)])
def test_queens(gpu: Any, n: int, count: int) -> None:
    assert run(gpu, queens, n * n, np.zeros(1, np.int32), n).tolist() == [count]


@vc.kernel
def neighbours(points, out):
    i = vc.global_id(0)
    if i >= points.shape[0]:
        return
    nearest, which = [math.inf] * 5, [-1] * 5
    for k in range(points.shape[0]):
        if k == i:
            continue
        distance = sum((a - b) ** 2 for a, b in zip(points[i], points[k]))  # noqa: B905
        place = 5
        while place > 0 and distance < nearest[place - 1]:
            place -= 1
        if place < 5:
            for q in range(4, place, -1):
                nearest[q], which[q] = nearest[q - 1], which[q - 1]
            nearest[place], which[place] = distance, k
    for k in range(5):
        out[i, k] = which[k]


@pytest.mark.device_only
def test_neighbours(gpu: Any, random: np.random.Generator) -> None:
    points = random.integers(0, 1000, (50, 3)).astype(np.float32)
    distances = ((points[:, None] - points) ** 2).sum(-1)
    np.fill_diagonal(distances, np.inf)
    expected = np.argsort(distances, 1, kind="stable")[:, :5]
    assert np.array_equal(run(gpu, neighbours, 50, np.zeros((50, 5), np.int32), points), expected)


@vc.kernel
def insertion_points(table, x, out):
    i = vc.global_id(0)
    if i < x.size:
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < x[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low


def test_insertion_points(gpu: Any, random: np.random.Generator) -> None:
    table, x = np.sort(random.integers(-50, 50, 33)).astype(np.int32), np.arange(-60, 60, dtype=np.int32)
    result = run(gpu, insertion_points, x.size, np.zeros(x.size, np.int32), table, x)
    assert np.array_equal(result, np.searchsorted(table, x))


@vc.kernel
def smallest(x, out):
    """Keeps the four smallest elements of a row in a heap whose first one is the largest."""
    i = vc.global_id(0)
    if i >= out.shape[0]:
        return
    heap, size = [math.inf] * 4, 4
    for v in x[i]:
        if v >= heap[0]:
            continue
        heap[0], node = v, 0
        while True:
            child = 2 * node + 1
            if child + 1 < size and heap[child + 1] > heap[child]:
                child += 1
            if child >= size or heap[child] <= heap[node]:
                break
            heap[node], heap[child] = heap[child], heap[node]
            node = child
    for k in reversed(range(4)):  # the largest is removed, and the last one sinks from the first place
        out[i, k] = heap[0]
        heap[0] = -math.inf
        at = 0
        for _ in range(2):
            child = 2 * at + 1
            if child + 1 < 4 and heap[child + 1] > heap[child]:
                child += 1
            if child < 4 and heap[child] > heap[at]:
                heap[at], heap[child] = heap[child], heap[at]
                at = child


def test_smallest(gpu: Any, random: np.random.Generator) -> None:
    x = random.integers(0, 100, (20, 30)).astype(np.float32)
    result = run(gpu, smallest, 20, np.zeros((20, 4), np.float32), x)
    assert np.array_equal(result, np.sort(x, 1)[:, :4])
