"""Named tuples, enums, dataclasses and other objects of numbers: constants by attribute, and what is no argument."""

from __future__ import annotations

import dataclasses
import enum
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.errors import KernelError


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = 2


class Point(NamedTuple):
    x: Any
    y: Any = 10


@dataclasses.dataclass
class Settings:
    rate: float
    place: Point
    mode: Mode = Mode.FAST


POINT, MODE = Point(np.uint32(2**31 + 5), 2), Mode.FAST
TABLE = {"n": 3, Color.RED: 0.5}
SETTINGS, SPACE = Settings(0.5, Point(3, 4)), SimpleNamespace(n=3)


def moved(p, by):
    return Point(y=p.y + by, x=p.x)


@vc.kernel
def numbers(out, a):
    p = moved(Point(a), 1)  # y is 11
    if a > 1:
        p = Point(a * 2.5)
    for _ in range(2):
        p = Point(p.x, p.y + 1)
    x, y = p
    out[0], out[1], out[2] = p.x + x, p.y + y, p[0] * len(p)
    q = (p.x, 1) if a > 1 else Point(7, a)
    out[3] = q[1]


@vc.kernel
def constants(out):
    out[0] = POINT.x + POINT.x  # uint32 wraps
    out[1] = SETTINGS.rate * SETTINGS.place.y
    out[2] = Color.BLUE + Color.RED.value if MODE is Mode.FAST and MODE is not Mode.EXACT else -1
    out[3] = SPACE.n * TABLE["n"] * TABLE[Color.RED] + Mode.EXACT.value
    if MODE != Mode.FAST or SETTINGS.mode != MODE or MODE.name != "FAST":
        out[3] = -1


@pytest.mark.parametrize("a", [1, 4])
def test_named_tuples_are_made_in_kernels(gpu: vc.Runtime, a: int) -> None:
    out = gpu.zeros(4)
    numbers[1, 1](out, a)
    x, y = (2.5 * a, 12) if a > 1 else (a, 13)
    assert out.numpy().tolist() == [2 * x, 2 * y, 2 * x, a if a == 1 else 1]


def test_objects_of_numbers_are_constants_that_may_change(gpu: vc.Runtime) -> None:
    out = gpu.zeros(4)

    def found() -> list[float]:
        constants[1, 1](out)
        return out.numpy().tolist()

    assert found() == [10, 2, 3, 6.5]
    try:
        SETTINGS.rate, SPACE.n, TABLE["n"] = 1.5, 4, 1
        assert found() == [10, 6, 3, 4]
    finally:
        SETTINGS.rate, SPACE.n, TABLE["n"] = 0.5, 3, 3


@vc.kernel
def given(out, x):
    out[0] = x
    if x == Color.RED:
        out[1] = 1


@vc.kernel
def annotated(out, x: vc.int32):
    out[0] = x


class Own(float):
    def __repr__(self) -> str:
        return "Own"


OWN = Own(1.5)


@vc.kernel
def of_its_class(out):
    out[0] = OWN


def test_constants_of_classes_that_show_them_otherwise(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    out = gpu.zeros(1)
    for number in (1.5, 2.5):
        monkeypatch.setitem(globals(), "OWN", Own(number))
        of_its_class[1, 1](out)
        assert out.numpy()[0] == number


@pytest.mark.parametrize(
    "number", [Color.RED, enum.IntFlag("Flag", "A B")(3), np.float16(2.5), np.bool_(True), np.uint8(200), Own(0.5)]
)
def test_numbers_of_other_classes_are_arguments(gpu: vc.Runtime, number: Any) -> None:
    out = gpu.zeros(2)
    for _ in range(2):
        try:
            given[1, 1](out, number)
        except vc.MissingFeature as missing:
            pytest.skip(str(missing))
        assert out.numpy().tolist() == [float(number), number == 1]


def test_annotations_take_enums_and_bools(gpu: vc.Runtime) -> None:
    out = gpu.zeros(1)
    for number in (Color.RED, Color.BLUE, 7, Color.RED, np.bool_(True), np.bool_(True), np.bool_(False)):
        annotated[1, 1](out, number)
        assert out.numpy()[0] == number


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Fraction(1, 2), "got Fraction for x; pass float(x)"),
        (Decimal("0.5"), "got Decimal for x; pass float(x)"),
        (np.longdouble(0.5), f"got {np.longdouble.__name__} for x; pass float(x)"),
        (Mode.FAST, "got Mode for x; pass a number, or read it in the kernel as a constant from outside"),
        (SPACE, "got SimpleNamespace for x; pass a number, or read it in the kernel as a constant from outside"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_as_an_argument(gpu: vc.Runtime, wrong: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        given(gpu.zeros(2), wrong)
    assert str(raised.value).endswith(message)


class Rates(dict[str, float]):
    rate = 0.5


RATES = Rates(rate=2.0)


@vc.kernel
def attribute_first(out):
    out[0], out[1] = RATES.rate, RATES["rate"]


@vc.kernel
def key_first(out):
    out[1] = RATES["rate"]
    out[0] = RATES.rate


@pytest.mark.parametrize("kernel", [attribute_first, key_first])
def test_attributes_of_a_dict_are_not_its_keys(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    out = gpu.zeros(2)
    for rate, entry in ((0.5, 2.0), (0.5, 3.0), (7.0, 3.0)):
        monkeypatch.setattr(Rates, "rate", rate)
        monkeypatch.setitem(RATES, "rate", entry)
        kernel[1, 1](out)
        assert out.numpy().tolist() == [rate, entry]


@vc.kernel
def no_key(out):
    out[0] = TABLE["m"]


@vc.kernel
def no_constant_key(out):
    out[0] = TABLE[vc.global_id(0)]


@vc.kernel
def misspelt(out):
    out[0] = POINT.z


@vc.kernel
def unknown(out):
    out[0] = SETTINGS.rat


@vc.kernel
def no_number(out):
    out[0] = HALF


@vc.kernel
def truth_of_what_may_change(out):
    out[0] = 1 if RATES else 2


@vc.kernel
def not_what_may_change(out):
    out[0] = not SPACE


@vc.kernel
def equal_to_what_may_change(out):
    out[0] = SPACE == 3 or (1, RATES) == (1, 2)


@vc.kernel
def stored(out):
    SPACE.n = 3
    out[0] = 1


HALF = Fraction(1, 2)


def test_errors_of_attributes(gpu: vc.Runtime) -> None:
    for kernel, message in (
        (misspelt, "Point has no attribute z; its fields are x, y"),
        (unknown, "Settings has no attribute rat; did you mean rate?"),
        (no_key, "the dict has no key 'm'; it has 'n', <Color.RED: 1>"),
        (no_constant_key, "keys of dicts are strings and ints known at compile time; got int32"),
        (no_number, r"this takes numbers; got a Fraction; write float\(…\) outside of the kernel"),
        (truth_of_what_may_change, "a Rates may change, and kernels are compiled for constants; use a number"),
        (not_what_may_change, "a SimpleNamespace may change"),
        (equal_to_what_may_change, "a SimpleNamespace may change"),
        (stored, "a kernel assigns to variables and to elements of arrays"),
    ):
        with pytest.raises(KernelError, match=message):
            kernel[1, 1](gpu.zeros(1))


def test_an_attribute_that_is_deleted_after_a_launch(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SPACE, "rate", 2.0, raising=False)

    @vc.kernel
    def kernel(out: Any) -> None:
        out[0] = SPACE.rate

    for _ in range(2):
        kernel[1, 1](gpu.zeros(2))
    out = gpu.zeros(2)
    kernel[1, 1](out)
    monkeypatch.delattr(SPACE, "rate")
    with pytest.raises(KernelError, match=r"SimpleNamespace has no attribute rate"):
        kernel[1, 1](out)
