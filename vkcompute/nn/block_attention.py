"""Attention by one block program: the scores of a block of queries and keys stay in registers.

Each program takes a block of queries through all keys, with the online softmax (Milakov and Gimelshein, 2018) of
FlashAttention (Dao et al., 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.arrays.block_offsets import grid, is_too_large, offsets, scaled, span
from vkcompute.arrays.block_product import multiplies_halves
from vkcompute.arrays.manipulation import broadcast_to
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.blocks.launching.built import Built, Program, is_wide
from vkcompute.ir import INT32, Memory, Value
from vkcompute.nn.rows import bindable
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.device import block_target
from vkcompute.tile.registers import ADJACENT

_MOST_SIZE = 128  # elements of a query, and of a value
_LEAST = 16  # of all lengths of a block: cooperative matrices have as many rows and columns
# The most queries and keys of a block, for up to 64 and 128 elements. AMD's compiler (Mesa 25.0.7) spills nothing, for
# navi21 without cooperative matrices, and for navi31 with them. Cooperative matrices need a quarter of the cycles.
LENGTHS = {64: (64, 16), 128: (32, 16)}
LENGTHS_OF_MATRICES = {64: (64, 64), 128: (64, 32)}
_PUSHES = "n_rows", "n_keys", "size", "v_size", "k_repeats", "v_repeats", "mask_repeats", "mask_stack", "mask_row"


class Form(NamedTuple):
    """Constants of a program.

    Attributes:
        dtype: of the arrays.
        scale: the factor of the scores, in hexadecimal, as 0.0 and -0.0 would be the same key.
        causal: True if query i sees the keys up to i only.
        masked: True if the program adds a mask to the scores.
        halves: True to multiply the weights by the values in float16.
        rows, keys: queries and keys of a block; powers of two.
        size, v_size: elements of a query, and of a value, in a block; powers of two.
        whole_size, whole_v_size, whole_keys: True if blocks have no elements, or keys, beyond those of the arrays.
    """

    dtype: str
    scale: str
    causal: bool
    masked: bool
    halves: bool
    rows: int
    keys: int
    size: int
    v_size: int
    whole_size: bool
    whole_v_size: bool
    whole_keys: bool


class _Attention:
    """Builds the program of a form."""

    def __init__(self, form: Form) -> None:
        self.form, self.function = form, ir.Function("attention")
        element = ir.SCALARS[form.dtype]
        self.working = element if element.bits > 16 else ir.FLOAT32
        self.q, self.k, self.v = (self.function.buffer(name, element) for name in ("q", "k", "v"))
        self.mask = self.function.buffer("mask", self.working) if form.masked else None
        self.out = self.function.buffer("out", element)
        self.pushes = {name: self.function.push(name, INT32) for name in _PUSHES}
        self.c = c = Builder(self.function)
        group, self.stack = (c.cast(c.builtin("group_id", axis), INT32) for axis in range(2))
        repeats = (self.pushes[name] for name in ("k_repeats", "v_repeats", "mask_repeats"))
        self.of_k, self.of_v, self.of_mask = (c.compute("div", self.stack, each) for each in repeats)
        self.first = c.compute("mul", group, c.const(form.rows, INT32))
        self.rows = span(c, self.first, form.rows)
        self.lowest, self.zero = (self._full(each, (form.rows,)) for each in (-np.inf, 0))

    def built(self) -> Built:
        """Returns the function, its wide arrays and the divisors of its push constants."""
        c, form, pushes = self.c, self.form, self.pushes
        q = self._load(self.q, self.stack, self.rows, "n_rows", "size", whole=False)
        stop: Value = pushes["n_keys"]
        if form.causal:
            stop = c.compute("min", stop, c.compute("add", self.first, c.const(form.rows, INT32)))
        loop = c.loop(c.const(0, INT32), self.lowest, self.zero, self._full(0, (form.rows, form.v_size)))
        with loop.body:
            at, *state = loop.params
            with c.if_(c.compute("ge", at, stop)).then:
                c.break_(loop, *state[1:])
            c.yield_(c.compute("add", at, c.const(form.keys, INT32)), *self._step(q, span(c, at, form.keys), *state))
        total, sums = loop.results
        factor = c.compute("div", self._full(1, (form.rows,)), total)  # one quotient per row
        factor = c.select(c.compute("eq", total, self.zero), self.zero, factor)  # a row without keys
        found = c.cast(c.compute("mul", sums, self._spread(factor, form.v_size)), self.out.element)
        places, valid = self._places(self.stack, self.rows, "n_rows", "v_size", whole=False)
        c.store_block(self.out, places, found, valid)
        wide, sizes = [self.q, self.k, self.v, self.out], (pushes["size"], pushes["v_size"])
        return Built(self.function, wide, dict.fromkeys(sizes, ADJACENT))

    def _step(self, q: Value, keys: Value, highest: Value, total: Value, sums: Value) -> tuple[Value, Value, Value]:
        """Adds a block of keys to the state, and returns it.

        The state of a row is its highest score so far, the sum of its weights, and the weighted sum of the values. A
        weight is the exponential of a score less the highest one.
        """
        c, form = self.c, self.form
        k = self._load(self.k, self.of_k, keys, "n_keys", "size", whole=form.whole_keys)
        products = c.dot(q, c.permute(k, (1, 0)), self._full(0, (form.rows, form.keys)))
        scores = self._scores(products, keys)
        most = c.compute("max", highest, self._reduced("max", scores))
        origin = c.select(c.compute("eq", most, self.lowest), self.zero, most)  # -inf less itself is NaN
        weights = c.compute("exp", c.compute("sub", scores, self._spread(origin, form.keys)))
        shrink = c.compute("exp", c.compute("sub", highest, origin))
        total = c.compute("add", c.compute("mul", total, shrink), self._reduced("add", weights))
        v = self._load(self.v, self.of_v, keys, "n_keys", "v_size", whole=form.whole_keys)
        kind = v.type.element if form.halves else self.working  # type: ignore[union-attr]
        shrunk = c.compute("mul", sums, self._spread(shrink, form.v_size))
        return most, total, c.dot(c.cast(weights, kind), c.cast(v, kind), shrunk)

    def _scores(self, products: Value, keys: Value) -> Value:
        """Returns the scores: scaled products plus the mask, or -inf for a key that a query must not see."""
        c, form, pushes = self.c, self.form, self.pushes
        shape = form.rows, form.keys
        found = c.compute("mul", products, self._full(float.fromhex(form.scale), shape))
        below = c.reshape(self._below(keys, pushes["n_keys"]), (1, form.keys))
        seen = [] if form.whole_keys else [c.broadcast(below, shape)]
        if self.mask is not None:
            start = c.compute("mul", self.of_mask, pushes["mask_stack"])
            last = c.compute("sub", pushes["n_rows"], c.const(1, INT32))
            inside = c.compute("min", self.rows, c.full(last, (form.rows,)))
            places = offsets(c, scaled(c, inside, pushes["mask_row"]), keys, start)
            found = c.compute("add", found, c.load_block(self.mask, places, *seen))
        if form.causal:
            seen.append(grid(c, "ge", self.rows, keys))
        for each in seen:
            found = c.select(each, found, self._full(-np.inf, shape))
        return found

    def _load(self, memory: Memory, matrix: Value, rows: Value, n_rows: str, size: str, *, whole: bool) -> Value:
        """Loads rows of a matrix, with zeros in place of missing elements."""
        return self.c.load_block(memory, *self._places(matrix, rows, n_rows, size, whole=whole))

    def _places(self, matrix: Value, rows: Value, n_rows: str, size: str, *, whole: bool) -> tuple[Value, Value | None]:
        """Returns the offsets of rows of a matrix, and the mask of its elements, None if it has all.

        Args:
            n_rows, size: names of the push constants with the lengths of a matrix.
            whole: True if it has all rows.
        """
        c, pushes, form = self.c, self.pushes, self.form
        n, is_whole = {"size": (form.size, form.whole_size), "v_size": (form.v_size, form.whole_v_size)}[size]
        start = c.compute("mul", matrix, c.compute("mul", pushes[n_rows], pushes[size]))
        places = offsets(c, scaled(c, rows, pushes[size]), c.arange(0, n), start)
        shape = *rows.type.shape, n // ADJACENT, ADJACENT  # type: ignore[union-attr]
        fours = scaled(c, c.arange(0, shape[1]), c.const(ADJACENT, INT32))
        masks = [] if whole else [c.reshape(self._below(rows, pushes[n_rows]), (shape[0], 1, 1))]
        masks += [] if is_whole else [c.reshape(self._below(fours, pushes[size]), (1, shape[1], 1))]
        spread = [c.reshape(c.broadcast(each, shape), (shape[0], n)) for each in masks]
        return places, reduce(lambda x, y: c.compute("and", x, y), spread) if spread else None

    def _below(self, indices: Value, stop: Value) -> Value:
        return self.c.compute("lt", indices, self.c.broadcast(stop, indices.type.shape))  # type: ignore[union-attr]

    def _reduced(self, name: str, value: Value) -> Value:
        """Reduces each row by an operation."""
        (found,) = self.c.reduce([value], 1, lambda x, y: [self.c.compute(name, x[0], y[0])])
        return found

    def _full(self, value: float, shape: tuple[int, ...]) -> Value:
        return self.c.full(self.c.const(value, self.working), shape)

    def _spread(self, each: Value, n: int) -> Value:
        """Broadcasts a number per row to `n` columns."""
        rows = self.form.rows
        return self.c.broadcast(self.c.reshape(each, (rows, 1)), (rows, n))


def _attention(*form: Any) -> Built:
    """Builds softmax(q @ k.T * scale + mask) @ v, of stacks of matrices."""
    return _Attention(Form(*form)).built()


ATTENTION = Program(_attention)


def fused_attention(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float, *, is_causal: bool
) -> Array | None:
    """Returns the attention of arrays of one dtype.

    Returns None where products of whole matrices are faster, and where the program does not take the shapes.

    Args:
        mask: is added to the scores; in the dtype of the scores.
    """
    (n, size), (m, v_size) = query.shape[-2:], value.shape[-2:]
    masks = [] if mask is None else [mask.reshape((*[1] * (2 - mask.ndim), *mask.shape))]
    stack = np.broadcast_shapes(*[each.shape[:-2] for each in (query, key, value, *masks)])
    n_matrices = math.prod(stack)
    if not _is_fast(query, size, v_size) or 0 in (n, m, n_matrices):
        return None
    form = _form(query, value, scale, is_causal=is_causal, masked=mask is not None)
    query, _ = _stacked(broadcast_to(query, (*stack, n, size)), stack)
    (key, k_repeats), (value, v_repeats) = _stacked(key, stack), _stacked(value, stack)
    mask_rows, mask_repeats, arrays = 1, 1, [query, key, value]
    for each in masks:
        mask_rows = 1 if each.shape[-2] == 1 else n
        added, mask_repeats = _stacked(broadcast_to(each, (*each.shape[:-2], mask_rows, m)), stack)
        arrays.append(added)
    groups = -(-n // form.rows), n_matrices, 1
    sizes = [n_matrices * n * v_size, *[each.size for each in arrays]]
    if max(groups) > MOST_GROUPS or is_too_large(query, sizes) or not all(map(is_wide, arrays[:3])):
        return None
    out = temporary(query.runtime, (n_matrices, n, v_size), query.dtype)
    mask_row = m if mask_rows > 1 else 0
    numbers = n, m, size, v_size, k_repeats, v_repeats, mask_repeats, mask_rows * m, mask_row
    ATTENTION.launch(form, [*arrays, out], numbers, groups)
    return out.reshape((*stack, n, v_size))


def _is_fast(query: Array, size: int, v_size: int) -> bool:
    """True if the program is faster than products: on GPUs, for queries and values that it loads four by four."""
    fits = all(0 < each <= _MOST_SIZE and each % ADJACENT == 0 for each in (size, v_size))
    return fits and block_target(runtime_of(query)).stages


def _form(query: Array, value: Array, scale: float, *, is_causal: bool, masked: bool) -> Form:
    (n, size), (m, v_size) = query.shape[-2:], value.shape[-2:]
    halves = query.dtype == np.float16 and multiplies_halves(query)
    width, v_width = _block(size, _MOST_SIZE), _block(v_size, _MOST_SIZE)
    most = (LENGTHS_OF_MATRICES if halves else LENGTHS)[64 if max(width, v_width) <= 64 else _MOST_SIZE]
    rows, keys = _block(n, most[0]), _block(m, most[1])
    return Form(
        query.dtype.name, scale.hex(), is_causal, masked, halves, rows, keys, width, v_width,
        whole_size=size == width, whole_v_size=v_size == v_width, whole_keys=m % keys == 0,
    )  # fmt: skip


def _block(n: int, most: int) -> int:
    """Returns the length of a block for `n` elements."""
    return min(max(1 << (n - 1).bit_length(), _LEAST), most)


def _stacked(x: Array, stack: Sequence[int]) -> tuple[Array, int]:
    """Returns the matrices of a stack without adjacent repeats, and the number of repeats of each."""
    matrix, kept = x.shape[-2:], len(stack)
    heads = [1] * (len(stack) + 2 - x.ndim) + [*x.shape[:-2]]
    while kept and heads[kept - 1] == 1:
        kept -= 1
    whole = broadcast_to(x.reshape((*heads[:kept], *matrix)), (*stack[:kept], *matrix))
    return bindable(whole.reshape((-1, *matrix))), math.prod(stack[kept:])
