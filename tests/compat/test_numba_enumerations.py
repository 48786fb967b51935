"""Members of enumerations that are no numbers in Numba's kernels, and positions that kernels print."""

from __future__ import annotations

from enum import Enum, Flag, IntEnum

import numpy as np
import pytest

from vkcompute.compat.numba import cuda
from vkcompute.compat.numba.errors import TypingError

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]


class Color(Enum):
    RED, GREEN, BLUE = 1, 2, 3


class Planet(Enum):
    EARTH, MARS = (6.0, 6.4), (0.6, 3.4)


class Code(IntEnum):
    GOOD, BAD = 200, 404


class Mode(Flag):
    READ, WRITE = 1, 2


def require_pythons(kernel, enum, n):
    """Compares the bools that a kernel writes for each member with those that Python writes."""
    for member in enum:
        out, expected = np.zeros(n, bool), np.zeros(n, bool)
        cuda.jit(kernel)[1, 1](member, out)
        kernel(member, expected)
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(("a", "b"), [(Color.RED, Color.RED), (Color.RED, Color.BLUE), (Planet.EARTH, Planet.MARS)])
def test_members_of_enumerations_are_arguments(a, b):
    def compared(a, b, out):
        out[0] = a == b
        out[1] = a != b
        out[2] = a is b
        out[3] = a is not b
        out[4] = a is Color.RED
        out[5] = a != Planet.MARS

    out, expected = np.zeros(6, bool), np.zeros(6, bool)
    cuda.jit(compared)[1, 1](a, b, out)
    compared(a, b, expected)
    assert out.tolist() == expected.tolist()


def test_a_variable_is_one_of_the_members_of_an_enumeration():
    @cuda.jit(device=True)
    def color(k):
        if k > 3:
            return Color.BLUE
        return Color.RED if k % 2 else Color.GREEN

    @cuda.jit
    def kernel(start, out):
        i = cuda.grid(1)
        last = start
        for k in range(i):
            last = color(k)
            if last is Color.BLUE:
                break
        out[i] = last.value + 10 * (color(i) == last)

    out = np.zeros(8)
    kernel[1, 8](Color.BLUE, out)
    colors = [2, 1, 2, 1, 3, 3, 3, 3]
    last = [3, *colors[:4], 3, 3, 3]
    assert out.tolist() == [value + 10 * (value == color) for value, color in zip(last, colors, strict=True)]


def test_a_member_that_is_an_int_is_compared_by_identity_with_another():
    def compared(a, out):
        b = a if out.size > 3 else Code.BAD
        out[0] = a is Code.GOOD
        out[1] = a is not Code.GOOD
        out[2] = Code.BAD is b
        out[3] = b is not Code.BAD

    require_pythons(compared, Code, 4)


def test_a_member_that_is_an_int_has_a_value():
    @cuda.jit
    def kernel(code, out):
        i = cuda.grid(1)
        other = Code.BAD if i else code
        out[i] = 1000 * code.value + other.value

    out = np.zeros(2, np.int64)
    kernel[1, 2](Code.GOOD, out)
    assert out.tolist() == [200_200, 200_404]


def test_members_of_an_enumeration_have_no_order():
    @cuda.jit
    def kernel(a, out):
        out[0] = a < Color.BLUE

    with pytest.raises(TypingError, match="members of an enumeration have no order"):
        kernel[1, 1](Color.RED, np.zeros(1))


def test_members_are_looked_up_in_tuples():
    def kernel(a, out):
        out[0] = a in (Color.RED, Color.BLUE)
        out[1] = a not in (Planet.MARS, Color.RED)
        out[2] = Color.BLUE in (a, Color.RED)

    require_pythons(kernel, Color, 3)


def test_enumerations_that_a_function_defines_twice_are_two():
    def defined():
        class Side(Enum):
            LEFT, RIGHT = 1, 2

        return Side

    def kernel(a, b, out):
        out[0] = a == b

    sides = defined(), defined()
    for one, other in (sides, sides[:1] * 2, sides[::-1]):
        out = np.zeros(1, bool)
        cuda.jit(kernel)[1, 1](one.LEFT, other.LEFT, out)
        assert out[0] == (one is other)


def test_a_member_is_not_printed():
    @cuda.jit
    def kernel(a):
        print("a", a)

    with pytest.raises(TypingError, match="print takes numbers and text; got a member of an enumeration"):
        kernel[1, 1](Color.RED)


def test_several_flags_are_no_member():
    @cuda.jit
    def kernel(a, out):
        out[0] = a is Mode.READ

    out = np.zeros(1)
    kernel[1, 1](Mode.READ, out)
    assert out[0]
    with pytest.raises(TypeError, match="kernels take one flag of Mode; got"):
        kernel[1, 1](Mode.READ | Mode.WRITE, out)


def test_positions_are_printed_as_tuples(capsys):
    @cuda.jit
    def kernel():
        print("at", cuda.threadIdx, cuda.blockDim.x)

    kernel[1, (2, 1, 1)]()
    cuda.synchronize()
    assert sorted(capsys.readouterr().out.splitlines()) == ["at (0, 0, 0) 2", "at (1, 0, 0) 2"]
