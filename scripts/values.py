"""Compares values of vkcompute.numpy with NumPy's, in random calls of arrays of all dtypes, shapes and layouts.

python scripts/values.py --minutes 5 --seed 3 --only sum

The reference is NumPy's result, and for floats that of the operands in float64. A result has NumPy's shape and dtype,
but that floats of 16 and 64 bits which NumPy makes of integers are 32-bit ones, the default here. Calls that NumPy
refuses are refused. Calls with a dtype that the device lacks are skipped. The status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402
from arguments import Outcome, plain  # noqa: E402
from value_calls import Call, Drawn, HostArray  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

_LACKING = {"i8": "shaderInt64", "u8": "shaderInt64", "f8": "shaderFloat64", "D": "shaderFloat64"}
ALLOWED = {
    "trapezoid": "sums of integers do not wrap", "round(": "bools become floats", "average": "means of nothing are NaN",
    "sinc": "as precise as the sine of a float", "spacing": "of the default float", "nextafter": "of the default float",
    "floor_divide": "inf // x is inf, as the Array API standard has it", "divmod": "inf // x is inf", "//": "inf // x",
    "interp": "positions of the default float", "ldexp": "of the default float", "frexp": "of the default float",
}  # fmt: skip
"""A part of a call -> why its results differ where NumPy makes floats of 16 or 64 bits of integers."""
_NARROWER = ("e", "f"), ("d", "f"), ("D", "F"), ("q", "i"), ("l", "i"), ("L", "I"), ("Q", "I")
"""NumPy's dtype of results whose operands do not have it, and the one here; without 64-bit integers, results wrap."""
_SUMS = "fft", "einsum", "matmul", "dot", "inner", "convolve", "correlate", "@", "polyval", "cumsum", "prod", "cov"
"""Functions whose results are sums of large terms that may cancel."""
_EPSILON = {"e": 2e-3, "f": 2e-5, "d": 1e-12, "F": 2e-5, "D": 1e-12}


def _copied(xp: Any, x: Any) -> Any:
    return np.array(x) if xp is np else x.copy()


def _changing(xp: Any) -> dict[str, Any]:
    """Returns functions that change a copy, and return it."""

    def into(change: Any) -> Any:
        def function(x: Any, *others: Any) -> Any:
            result = _copied(xp, x)
            change(result, *others)
            return result

        return function

    def inplace(x: Any) -> None:
        x += x

    return {
        "place_into": into(lambda x: xp.place(x, x > 0, [1, 2])),
        "put_into": into(lambda x: xp.put(x, [0, -1], [5, 6])),
        "add_at": into(lambda x: xp.add.at(x, [0, 0], 1)), "copyto_into": into(xp.copyto),
        "assign_slice": into(lambda x: x.__setitem__((..., slice(None, None, -2)), 3)), "inplace": into(inplace),
        "assign_mask": into(lambda x: x.__setitem__(x > 0, 7)), "fill_into": into(lambda x: xp.fill_diagonal(x, 2)),
    }  # fmt: skip


class Names(dict[str, Any]):
    """The names of a call: operands, and functions of a namespace."""

    def __init__(self, xp: Any, operands: dict[str, Any]) -> None:
        super().__init__(operands, xp=xp, **_changing(xp))

    def __missing__(self, name: str) -> Any:
        if name in ("float", "abs"):
            return {"float": float, "abs": abs}[name]
        return getattr(self["xp"], name)


def outcome(xp: Any, call: Call, operands: dict[str, HostArray]) -> Outcome:
    """Makes a call; the value has `out`, too."""
    given: dict[str, Any] = {name: np.array(x) if name == "out" else x for name, x in operands.items()}
    if xp is not np:
        given = {name: _uploaded(x) for name, x in given.items()}
    names = Names(xp, given)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = eval(call.text, {}, names)
            return Outcome([plain(item) for item in (result, *[names[item] for item in ("out",) if item in given])])
        except Exception as error:
            return Outcome(error=error)


def _uploaded(x: HostArray) -> vc.Array:
    """Returns a device array with the layout of a host's: a view of the same strides."""
    if any(n < 0 for n in x.strides):
        at = tuple([slice(None, None, -1 if n < 0 else 1) for n in x.strides])
        return _uploaded(x[at])[at]
    if x.ndim > 1 and x.T.flags.c_contiguous:
        return vnp.asarray(np.array(x.T)).T
    if x.size and 0 in x.strides:
        first = tuple([slice(0, 1) if n == 0 else slice(None) for n in x.strides])
        return vnp.broadcast_to(vnp.asarray(np.array(x[first])), x.shape)
    if x.ndim and x.size and not x.flags.c_contiguous:
        wide = np.repeat(x, 2, axis=-1)
        return vnp.asarray(wide)[..., ::2]
    return vnp.asarray(np.array(x))


def differences(wanted: Any, exact: Any, result: Any, epsilon: float, *, is_sum: bool) -> str:
    """Returns what is wrong of a result, which has a relative precision; "" if nothing is."""
    if isinstance(wanted, list) or isinstance(result, list):
        if not (isinstance(wanted, list) and isinstance(result, list) and len(wanted) == len(result)):
            return "another number of results"
        exacts = exact if isinstance(exact, list) and len(exact) == len(wanted) else wanted
        return next(
            filter(
                None, (differences(*item, epsilon, is_sum=is_sum) for item in zip(wanted, exacts, result, strict=True))
            ),
            "",
        )
    if not (isinstance(wanted, np.ndarray) and isinstance(result, np.ndarray)):
        return "" if type(wanted) is type(result) or wanted is result or wanted == result else "another type"
    if wanted.dtype.kind == "O":
        return ""
    if wanted.shape != result.shape:
        return f"shape {result.shape}, not {wanted.shape}"
    if not is_dtype(wanted.dtype, result.dtype):
        return f"dtype {result.dtype}, not {wanted.dtype}"
    if wanted.dtype.kind in "biu" and result.dtype.kind in "biu":
        return "" if np.array_equal(wanted.astype(result.dtype), result) else "other elements"
    return "" if is_near(wanted, exact, result, epsilon, is_sum=is_sum) else "other elements"


def is_dtype(wanted: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """True for the same dtype, or a 32-bit one for one of NumPy's."""
    return wanted == result or (wanted.char, result.char) in _NARROWER


def is_near(wanted: HostArray, exact: Any, result: HostArray, least: float, *, is_sum: bool) -> bool:
    """True if each element is near that of NumPy, or that of NumPy in higher precision; for sums beside the largest."""
    references = [wanted]
    if isinstance(exact, np.ndarray) and exact.shape == wanted.shape and exact.dtype.kind in "fc":
        references.append(exact)
    parts = ("real", "imag") if result.dtype.kind == "c" else ("real",)
    epsilon = max(least, _EPSILON[result.dtype.char], _EPSILON.get(wanted.dtype.char, 0))
    with np.errstate(all="ignore"):
        limit = float(np.finfo(result.dtype).max)
        near = np.zeros(result.shape, bool)
        for reference in references:
            scale = np.abs(reference).astype(float)
            finite = scale[np.isfinite(scale) & (scale < limit)]
            typical = float(finite.max() if is_sum else np.median(finite)) if finite.size else 0.0
            alike = np.ones(result.shape, bool)
            for part in parts:
                one, other = (np.asarray(getattr(item, part), float) for item in (reference, result))
                one = np.where(np.abs(one) > limit, np.copysign(np.inf, one), one)
                close = np.abs(one - other) <= epsilon * (np.abs(other) + scale + typical) + 1e-37
                alike &= close | (one == other) | (np.isnan(one) & np.isnan(other))
            near |= alike
    return bool(near.all())


def lacks(call: Call, features: Any) -> bool:
    """True if a device with these features lacks a dtype of a call."""
    return any(_LACKING.get(dtype, dtype) not in (dtype, *features) for dtype in call.dtypes)


def judged(call: Call) -> tuple[str, Outcome, Outcome]:
    """Returns "alike", "refused", "accepted", "internal", or what differs."""
    wanted, result = outcome(np, call, call.operands), outcome(vnp, call, call.operands)
    if result.error is not None:
        is_expected = isinstance(result.error, (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError))
        is_plain = is_expected and "\n" not in str(result.error)
        return "internal" if not is_plain else "alike" if wanted.error else "refused", wanted, result
    wider = {"e": "d", "f": "d", "F": "D"}
    kinds = {x.dtype.kind for x in call.operands.values()}
    is_undefined = kinds & {*"fc"} and any(np.dtype(dtype).kind == "u" for dtype in call.dtypes)
    if kinds == {"b"} or is_undefined or (wanted.error is not None and "power" in call.text):
        return "alike", wanted, result  # bools as numbers; negative floats as unsigned integers; powers are rounded
    is_divided = any(each in call.text for each in ("floor_divide", "divmod", "//"))
    if any(item in call.text for item in ALLOWED) and (is_divided or not kinds & {*"fc"}):
        return "alike", wanted, result
    if wanted.error is not None:
        return "accepted", wanted, result
    exact = {name: x.astype(wider.get(x.dtype.char, x.dtype)) for name, x in call.operands.items()}
    is_default = any(x.dtype.kind in "biu" for x in call.operands.values())  # of which functions make 32-bit floats
    epsilon = max(
        [_EPSILON["f"] if is_default else 0.0, *[_EPSILON.get(np.dtype(dtype).char, 0) for dtype in call.dtypes]]
    )
    exact_value, is_sum = outcome(np, call, exact).value, any(each in call.text for each in _SUMS)
    difference = differences(wanted.value, exact_value, result.value, epsilon, is_sum=is_sum)
    return difference or "alike", wanted, result


def main() -> int:
    """Makes the calls, and prints those that fail, the first few of a function."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--calls", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0, help="of the first call; each has the next one")
    parser.add_argument("--only", default="", help="a part of the call's text")
    parser.add_argument("--shown", type=int, default=2, help="calls that are printed of each function")
    parser.add_argument("--refused", action="store_true", help="print also what NumPy takes and is refused")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    shown: Counter[tuple[str, ...]] = Counter()
    features, end = vc.default_runtime().device.features, time.process_time() + options.minutes * 60
    seed = options.seed
    while time.process_time() < end and sum(counts.values()) < options.calls:
        call, seed = Drawn(seed).call(), seed + 1
        if options.only not in call.text:
            continue
        if lacks(call, features):
            counts["skipped: the device lacks a dtype"] += 1
            continue
        verdict, wanted, result = judged(call)
        is_wrong = verdict not in ("alike", "refused")
        counts["different" if is_wrong and verdict not in ("accepted", "internal") else verdict] += 1
        key = verdict, call.text.partition("(")[0]
        if (is_wrong or (options.refused and verdict == "refused")) and shown[key] < options.shown:
            shown[key] += 1
            print(f"{verdict}: {call.text}    seed {seed - 1}", flush=True)
            for name, x in call.operands.items():
                print(f"    {name} = {x.dtype}{x.shape} {_line(x)}")
            print(f"    NumPy: {_told(wanted)}\n    here:  {_told(result)}", flush=True)
    print(f"seeds {options.seed} to {seed - 1}: " + ", ".join(f"{n:,} {each}" for each, n in sorted(counts.items())))
    return int(any(counts[each] for each in ("accepted", "internal", "different")))


def _told(outcome: Outcome) -> str:
    return _line(outcome.value) if outcome.error is None else f"{type(outcome.error).__name__}: {_line(outcome.error)}"


def _line(value: Any) -> str:
    text = " ".join(str(value).split() if not isinstance(value, list) else repr(value).split())
    return text if len(text) < 300 else f"{text[:297]}..."


if __name__ == "__main__":
    sys.exit(main())
