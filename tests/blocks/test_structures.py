"""Structures (`triton.aggregate`), helpers with *args, recursion by constants, packs, and results that must be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError


@triton.aggregate
class Range:
    low: tl.tensor
    high: tl.tensor

    @triton.jit
    def width(self):
        return self.high - self.low

    @triton.jit
    def __add__(self, other):  # noqa: ANN204
        return Range(self.low + other, high=self.high + other)

    @staticmethod
    @triton.jit
    def of(x):  # noqa: ANN205
        return Range(tl.min(x, 0), tl.max(x, 0))


@triton.aggregate
class Tile:
    ptr: tl.tensor
    n: tl.constexpr

    def __init__(self, ptr, n) -> None:
        self.ptr = ptr
        self.n = tl.constexpr(n * 2)

    @triton.jit
    def load(self, first=0):
        return tl.load(self.ptr + first + tl.arange(0, self.n))


@triton.jit
def structured(x_ptr, out_ptr, n, N: tl.constexpr):
    span = Range.of(Tile(x_ptr, N // 2).load())
    if n > 3:
        span = span + 10
    for _ in range(n):
        span = Range(span.low, span.high + 1)
    tl.store(out_ptr, span.width())
    tl.store(out_ptr + 1, span.low)


def test_structures_have_fields_and_methods(machine: vkcompute.Runtime | None) -> None:
    x = np.array([5, 3, 9, 4], np.int32)
    for n in (2, 5):
        out = run(machine, structured, (1,), (x, np.zeros(2, np.int32), n), N=4)[1]
        assert out.tolist() == [6 + n, 3 + 10 * (n > 3)]


@triton.jit
def missing_field(x_ptr):
    tl.store(x_ptr, Range(1).width())


@triton.jit
def total(first, *others):  # noqa: ANN002
    for n in tl.static_range(len(others)):
        first += others[n]
    return first


@triton.jit
def halves(x, N: tl.constexpr):
    if N == 1:
        return x
    low, high = tl.split(tl.reshape(x, (N // 2, 2)))
    return halves(low + high, N // 2)


@triton.jit
def endless(x):
    return endless(x + 1)


@triton.jit
def never_ends(x_ptr):
    tl.store(x_ptr, endless(1))


@triton.jit
def helped(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, 1), halves(tl.load(x_ptr + tl.arange(0, N)), N))
    tl.store(out_ptr + 1, total(1, 20, 300))


def test_helpers_call_themselves_and_take_the_rest(machine: vkcompute.Runtime | None) -> None:
    assert run(machine, helped, (1,), (np.arange(8, dtype=np.int32), np.zeros(2, np.int32)), N=8)[1].tolist() == [
        28,
        321,
    ]


@triton.jit
def sums_and_products(a0, a1, b0, b1):
    return a0 + b0, a1 + b1, a0 * b1, a1 * b0


@triton.jit
def packed(a_ptr, b_ptr, sum_ptr, product_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    sums, products = tl.map_elementwise(sums_and_products, tl.load(a_ptr + at), tl.load(b_ptr + at), pack=2)
    tl.store(sum_ptr + at, sums)
    tl.store(product_ptr + at, products)


def test_packs_of_elements(machine: vkcompute.Runtime | None) -> None:
    a, b = np.arange(16, dtype=np.int32), np.arange(16, dtype=np.int32) + 3
    *_, sums, products = run(machine, packed, (1,), (a, b, a * 0, a * 0), N=16)
    assert np.array_equal(sums, a + b)
    assert np.array_equal(products, a * b.reshape(8, 2)[:, ::-1].reshape(-1))


@triton.aggregate
class Base:
    x: tl.tensor
    scale: tl.constexpr = 3

    @triton.jit
    def scaled(self):
        return self.x * self.scale


@triton.aggregate
class Derived(Base):
    y: tl.tensor = 0


@triton.jit
def inherits(x_ptr, out_ptr):
    one = Derived(tl.load(x_ptr), y=tl.load(x_ptr + 1))
    other = tl.aggregate_replace(one, scale=5)
    tl.store(out_ptr, one.scaled() + one.y)
    tl.store(out_ptr + 1, other.scaled())


@pytest.mark.pure
def test_structures_inherit() -> None:
    *_, result = run(None, inherits, (1,), (np.array([7, 2], np.int32), np.zeros(2, np.int32)))
    assert result.tolist() == [23, 35]
    with pytest.raises(TypeError, match="can only inherit from other aggregates; got list"):
        triton.aggregate(type("Odd", (list,), {}))
    with pytest.raises(TypeError, match="Base has no field 'z'; it has the fields x, scale"):
        tl.aggregate_replace(Base(1), z=2)
    with pytest.raises(TypeError, match="expects an aggregate instance; got 42"):
        tl.aggregate_replace(42, x=1)


class Pair(NamedTuple):
    x: tl.constexpr
    y: tl.constexpr


@triton.aggregate
class Layout:
    sizes: tl.tuple
    width: tl.constexpr


LAYOUT = tl.constexpr(Layout(Pair(3, tl.constexpr(7)), 4))


@triton.jit
def reads_layout(x_ptr, out_ptr):
    tl.store(out_ptr + tl.arange(0, LAYOUT.width), tl.load(x_ptr + LAYOUT.sizes.x) * LAYOUT.sizes[1])


@pytest.mark.pure
def test_members_on_the_host_are_constants() -> None:
    layout = LAYOUT.value
    assert isinstance(layout.sizes, tl.tuple)
    members = layout.width, layout.sizes.x, layout.sizes[1]
    assert all(isinstance(member, tl.constexpr) for member in members)
    assert [member.value for member in members] == [4, 3, 7]
    *_, result = run(None, reads_layout, (1,), (np.arange(4, dtype=np.int32), np.zeros(4, np.int32)))
    assert result.tolist() == [21] * 4


@triton.jit
def order(x, y):
    if x < y:
        return -1
    if x == y:
        return 0
    while x > 9:
        x = x // 2
    return x


@triton.jit
def ordered(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.map_elementwise(order, tl.load(x_ptr + at), tl.load(y_ptr + at)))


def test_functions_of_elements_have_branches_and_loops(machine: vkcompute.Runtime | None) -> None:
    x, y = np.array([1, 5, 3, 90], np.int32), np.array([2, 5, 1, 9], np.int32)
    *_, result = run(machine, ordered, (1,), (x, y, x * 0), N=4)
    assert result.tolist() == [-1, 0, 3, 5]


@triton.must_use_result("it has no effect")
@triton.jit
def square(x):
    return x * x


@triton.jit
def drops(x_ptr):
    square(tl.load(x_ptr))


@triton.jit
def asserts(x_ptr):
    tl.static_assert(False, "no such size")


@pytest.mark.pure
@pytest.mark.parametrize(("program", "message", "text"), [
    (missing_field, "Range has the fields low, high; each needs one value", "Range(1)"),
    (never_ends, "endless calls itself 33 deep, and its constants do not end that", "endless(x + 1)"),
    (total, "a program that is launched has no *others; pass a tuple", "total"),
    (drops, "the result of square is dropped, and must be used", "square("),
    (asserts, "static assertion failed: no such size", "static_assert"),
])  # fmt: skip
def test_errors(program: Any, message: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure) as caught:
        triton.jit(program.fn)[(1,)](np.zeros(2, np.int32))
    check_error(caught.value, message, text)
    assert caught.value.error_message.startswith(message)
    assert isinstance(caught.value, KernelError)


@triton.jit
def parity(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N)) != 0
    tl.store(out_ptr, tl.sum(x, dtype=tl.int1).to(tl.int32))
    tl.store(out_ptr + 1, tl.max((x + x).to(tl.int32) + (x - x).to(tl.int32), 0))


@pytest.mark.pure
def test_sums_of_bools_are_modulo_two() -> None:
    out = np.full(2, 9, np.int32)
    parity.interpret[(1,)](np.array([1, 0, 1, 1], np.int32), out, N=4)
    assert out.tolist() == [1, 0]


_TESTED = """
import numpy as np
import vkcompute.compat.triton as triton, vkcompute.compat.triton.language as tl

@triton.jit
def copy(x_ptr, y_ptr, N: tl.constexpr):
    assert N == 8, "length"
    tl.store(y_ptr + tl.arange(0, N), tl.load(x_ptr + tl.arange(0, N)))

def test_copy():
    x, y = np.arange(8.0), np.zeros(8)
    copy.interpret[(1,)](x, y, N=8)
    assert (x == y).all()
"""


@pytest.mark.pure
def test_asserts_that_pytest_rewrites(run_python: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "test_of_a_user.py").write_text(_TESTED)
    program = f"import pytest; print(pytest.main(['-q', '-p', 'no:cacheprovider', {str(tmp_path)!r}]))"
    done = run_python(program)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@triton.aggregate
class Counted:
    index: tl.tensor
    count: tl.tensor

    @triton.jit
    def more(self, x):
        return Counted(self.index + x, self.count + 1)


@triton.jit
def counted(x_ptr, out_ptr, n):
    state = Counted(0, 0)
    for i in range(n):
        state = state.more(tl.load(x_ptr + i))
    tl.store(out_ptr, state.index)
    tl.store(out_ptr + 1, state.count)


def test_fields_named_as_methods_of_tuples(machine: vkcompute.Runtime | None) -> None:
    *_, result = run(machine, counted, (1,), (np.arange(5, dtype=np.int32), np.zeros(2, np.int32), 5))
    assert result.tolist() == [10, 5]
