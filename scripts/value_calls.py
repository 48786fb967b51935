"""Random calls of functions of arrays, as texts, with their operands, for `scripts/values.py`."""

from __future__ import annotations

import random
import warnings
from typing import Any, NamedTuple

import numpy as np

HostArray = np.ndarray[Any, Any]
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 F D".split()
_INTS, _FLOATS = "i1 i2 i4 i8 u1 u2 u4 u8".split(), "f2 f4 f8".split()
_UNARY = (
    "absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conjugate cos cosh deg2rad exp exp2 expm1 fabs "
    "floor isfinite isinf isnan log log10 log1p log2 logical_not negative positive rad2deg reciprocal rint sign "
    "signbit sin sinh spacing sqrt square tan tanh trunc invert bitwise_count"
).split()
_BINARY = (
    "add arctan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal heaviside hypot less "
    "less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal "
    "power remainder subtract bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift"
).split()
_REDUCTIONS = "sum prod max min mean any all ptp argmax argmin count_nonzero std var median".split()
_NAN = "nansum nanprod nanmax nanmin nanmean nanstd nanvar nanmedian nanargmax nanargmin".split()
_METHODS = (
    "add multiply maximum minimum fmax fmin logical_and logical_or logical_xor bitwise_and bitwise_or gcd".split()
)
_WHOLE = (
    "sort(x, axis={axis})", "argsort(x, axis={axis}, kind='stable')", "unique(x)", "unique(x, return_counts=True)",
    "unique(x, return_inverse=True, return_index=True)", "flip(x, {axis})", "roll(x, {n}, axis={axis})", "x.T",
    "flip(x)", "roll(x, {n})", "tile(x, {few})", "repeat(x, {few})", "repeat(x, {few}, axis={axis})", "ravel(x)",
    "ravel(x, order='F')", "x.reshape(-1)", "concatenate([x, x], axis={axis})", "stack([x, x], axis={axis})", "tril(x)",
    "triu(x, {n})", "nonzero(x)", "argwhere(x)", "flatnonzero(x)", "diff(x, axis={axis})", "diff(x, n={few})",
    "nan_to_num(x)", "round(x, {n})", "clip(x, {low}, {high})", "where(x, x, 1)", "cumsum(x, axis={axis})",
    "cumprod(x, axis={axis})", "cumulative_sum(x, axis={axis}, include_initial=True)", "nancumsum(x)", "cumsum(x)",
    "swapaxes(x, 0, -1)", "moveaxis(x, 0, -1)", "expand_dims(x, {axis})", "squeeze(x)", "pad(x, {few})",
    "pad(x, {few}, mode='edge')", "pad(x, {few}, mode='wrap')", "pad(x, {few}, mode='reflect')", "x[::-1]", "x[..., 0]",
    "x[..., ::2]", "x[{n}:]", "x[x != 0]", "take(x, {n})", "take(x, [0, -1], axis={axis})", "diagonal(x)", "trace(x)",
    "take(x, [0, 5, -7], mode='wrap')", "take(x, [0, 5, -7], mode='clip')", "delete(x, 0, axis={axis})", "rot90(x)",
    "insert(x, 0, 1, axis={axis})", "isin(x, [0, 1, 2])", "ediff1d(x)", "trapezoid(x, axis={axis})", "gradient(x)",
    "quantile(x, 0.3, axis={axis})", "percentile(x, [10, 90], axis={axis})", "nanquantile(x, 0.5, axis={axis})",
    "average(x, axis={axis})", "searchsorted(sort(x.reshape(-1)), [0, 1, 2])", "array_split(x, 3, axis={axis})",
    "partition(x, 0)[..., 0]", "cov(x)", "vander(x.reshape(-1)[:4], 3)", "atleast_3d(x)", "x.astype('i4')",
    "x.astype('f4')", "x.astype('?')", "x.astype('F')", "x.astype('u1')", "x.astype('f2')", "x.astype('i8')",
    "broadcast_to(x, (2,) + x.shape)", "histogram(x, bins=4, range=(-2, 2))", "digitize(x, [-1, 0, 1])", "diag(x)",
    "bincount(abs(x.reshape(-1)) % 7)", "fft.fft(x, axis={axis})", "fft.rfft(x, axis={axis})", "fft.ifft(x)",
    "linalg.norm(x)", "linalg.norm(x, axis={axis})", "vdot(x, x)", "kron(x, x)", "outer(x, x)", "isclose(x, x)",
    "array_equal(x, x, equal_nan=True)", "packbits(x.astype('?'), axis={axis})", "sinc(x)", "unwrap(x)", "angle(x)",
    "modf(x)", "frexp(x)", "ldexp(x, 2)", "float_power(x, 2)", "fix(x)", "isreal(x)", "real_if_close(x)",
    "interp(x, [-1, 0, 2], [3, 4, 8])", "einsum('...i->...', x)", "einsum('...i,...i->...i', x, x)", "trim_zeros(x)",
    "argpartition(x, 0)[..., 0] * 0", "compress([True, False], x, axis={axis})", "extract(x > 0, x)", "x.sum(-1).sum()",
    "place_into(x)", "put_into(x)", "add_at(x)", "assign_slice(x)", "assign_mask(x)", "fill_into(x)", "inplace(x)",
)  # fmt: skip
_PAIRS = (
    "matmul(x, y)", "dot(x, y)", "inner(x, y)", "outer(x, y)", "where(x > 0, x, y)", "where(y, x, y)", "cross(x, y)",
    "tensordot(x, y, axes=0)", "vecdot(x, y)", "concatenate([x, y], axis=None)", "isclose(x, y)", "allclose(x, y)",
    "intersect1d(x, y)", "union1d(x, y)", "setdiff1d(x, y)", "setxor1d(x, y)", "isin(x, y)", "divmod(x, y)",
    "convolve(x, y)", "correlate(x, y)", "interp(x, sort(y.reshape(-1)), y.reshape(-1))", "result_type(x, y)",
    "array_equal(x, y)", "broadcast_arrays(x, y)", "clip(x, y, y)", "copyto_into(x, y)", "searchsorted(sort(y), x)",
    "x + y * 2 - x / 3", "(x > y) & (x < 2)", "abs(x - y).max()", "x // y", "x % y", "x ** 2", "x << 1", "-x", "~x",
    "x @ y", "x == y", "einsum('i...,i...->...', x, y)", "lexsort([x, y])", "append(x, y)", "choose(x > 0, [x, y])",
    "polyval(x, y)", "select([x > 0, y > 0], [x, y], 3)", "take_along_axis(x, y, -1)", "vstack([x, y])",
    "hstack([x, y])",
)  # fmt: skip
_SCALARS = "0", "1", "-1", "2", "3", "2.5", "-0.5", "True", "1e10", "float('nan')", "float('inf')", "-0.0", "300", "1j"


class Call(NamedTuple):
    """A call.

    Attributes:
        text: an expression of `xp`, `x` and others.
        operands: arrays, by name.
        dtypes: of the operands and of keywords.
    """

    text: str
    operands: dict[str, HostArray]
    dtypes: tuple[str, ...]


class Drawn:
    """Draws arrays and calls from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.dtypes: list[str] = []

    def dtype(self, among: Any = DTYPES) -> str:
        """Returns a dtype."""
        chosen = self.random.choice(among)
        self.dtypes.append(chosen)
        return str(chosen)

    def shape(self) -> tuple[int, ...]:
        """Returns a shape of up to four axes."""
        n = self.random.choice((0, 1, 1, 1, 2, 2, 2, 3, 4))
        lengths = (0, 1, 2, 3, 5, 8, 17, 40) if n < 3 else (0, 1, 2, 3, 5)
        weights = (1, 3, *[4] * (len(lengths) - 2))
        return tuple(self.random.choices(lengths, weights, k=n))

    def elements(self, shape: tuple[int, ...], dtype: str) -> HostArray:
        """Returns elements: small numbers, with extremes and special values among them in some arrays."""
        kind, has_special = np.dtype(dtype), self.random.random() < 0.5
        if kind.kind == "b":
            return np.asarray(self.numpy.random(shape) < 0.5)
        if kind.kind in "iu":
            info = np.iinfo(kind)
            values = self.numpy.integers(max(info.min, -9), 10, shape).astype(kind)
            special = np.array([info.min, info.max, info.max - 1, info.min + 1, 0], kind)
        else:
            values = np.asarray(self.numpy.standard_normal(shape) * self.random.choice((1, 1, 10, 0.01))).astype(kind)
            info_f = np.finfo(kind)
            extremes = [info_f.max, -info_f.max, info_f.tiny] if kind.kind == "f" else []
            special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, *extremes], kind)
            if kind.kind == "c":
                values = (values + 1j * self.numpy.standard_normal(shape)).astype(kind)
        if has_special:
            values = np.where(self.numpy.random(shape) < 0.2, self.numpy.choice(special, shape), values)
        return np.asarray(values, kind)

    def array(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> HostArray:
        """Returns an array or a view: transposed, reversed, with steps or repeated."""
        shape = self.shape() if shape is None else shape
        dtype = self.dtype() if dtype is None else dtype
        how = self.random.choice(("as it is", "as it is", "transposed", "reversed", "steps", "repeated"))
        if how == "transposed":
            return np.transpose(self.elements(shape[::-1], dtype))
        if how == "reversed":
            return self.elements(shape, dtype)[(slice(None, None, -1),) * len(shape)]
        if how == "steps" and shape:
            return self.elements((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
        if how == "repeated" and shape:
            return np.broadcast_to(self.elements((1, *shape[1:]), dtype), shape)
        return self.elements(shape, dtype)

    def beside(self, x: HostArray) -> HostArray | str:
        """Returns a second operand: a number as a text, or an array whose shape broadcasts."""
        if self.random.random() < 0.25:
            return self.random.choice(_SCALARS)
        shape = list(x.shape[self.random.randint(0, x.ndim) :]) if self.random.random() < 0.4 else list(x.shape)
        shape = [1 if self.random.random() < 0.15 else n for n in shape]
        return self.array(tuple(shape), x.dtype.str[1:] if self.random.random() < 0.4 else None)

    def axes(self, ndim: int) -> str:
        """Returns the axes of a reduction as a text."""
        choices = ["None", *map(str, range(-ndim, ndim))]
        if ndim > 1:
            choices += ["(0, 1)", "(-1, 0)", "()"]
        return self.random.choice(choices)

    def call(self) -> Call:
        """Draws a call."""
        self.dtypes = []
        kind = self.random.choices(
            ("unary", "binary", "reduction", "method", "whole", "pair"), (3, 5, 5, 2, 8, 4)
        )[0]  # fmt: skip
        x = self.array()
        operands = {"x": x}
        text = getattr(self, f"_{kind}")(x, operands)
        return Call(text, operands, (*self.dtypes, *[operand.dtype.str[1:] for operand in operands.values()]))

    def _options(self, operands: dict[str, HostArray], shape: tuple[int, ...]) -> str:
        """Returns keywords of a function of elements."""
        text = ""
        if self.random.random() < 0.15:
            text += f", dtype='{self.dtype()}'"
        if self.random.random() < 0.2:
            operands["out"] = np.array(self.elements(shape, self.dtype()))
            text += ", out=out"
            if self.random.random() < 0.5:
                operands["mask"] = self.elements(shape, "?")
                text += ", where=mask"
            if self.random.random() < 0.3:
                text += ", casting='unsafe'"
        return text

    def _unary(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        return f"xp.{self.random.choice(_UNARY)}(x{self._options(operands, x.shape)})"

    def _binary(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        y = self.beside(x)
        if not isinstance(y, str):
            operands["y"] = y
        shape = x.shape if isinstance(y, str) else np.broadcast_shapes(x.shape, y.shape)
        pair = self.random.choice(("x, {}", "{}, x")).format(y if isinstance(y, str) else "y")
        return f"xp.{self.random.choice(_BINARY)}({pair}{self._options(operands, shape)})"

    def _reduction(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        name = self.random.choice(_REDUCTIONS + _NAN)
        axis = self.axes(x.ndim)
        if "arg" in name and axis.startswith("("):
            axis = "None"
        text = f"xp.{name}(x, axis={axis}"
        if self.random.random() < 0.3:
            text += ", keepdims=True"
        root = name.removeprefix("nan")
        if root in ("sum", "prod", "mean", "std", "var") and self.random.random() < 0.3:
            text += f", dtype='{self.dtype()}'"
        if root in ("sum", "prod", "max", "min") and self.random.random() < 0.3:
            text += f", initial={self.random.choice(('0', '1', '5', '-3', '2.5'))}"
        if root in ("sum", "prod", "max", "min", "mean", "std", "var", "any", "all") and self.random.random() < 0.25:
            operands["mask"] = self.elements(x.shape, "?")
            text += ", where=mask"
        if root in ("std", "var") and self.random.random() < 0.3:
            text += ", ddof=1"
        if "arg" not in name and name != "count_nonzero" and self.random.random() < 0.2:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    shape = np.shape(eval(f"{text})", {"xp": np}, operands))
                except (TypeError, ValueError, OverflowError):
                    return f"{text})"
            operands["out"] = np.array(self.elements(shape, self.dtype()))
            text += ", out=out"
        return f"{text})"

    def _method(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        name, axis = self.random.choice(_METHODS), self.random.randint(-max(x.ndim, 1), max(x.ndim - 1, 0))
        options = ""
        how = self.random.choice(("reduce", "accumulate", "reduceat", "outer"))
        if how != "outer" and self.random.random() < 0.2:
            options += f", dtype='{self.dtype()}'"
        if how == "reduce":
            if self.random.random() < 0.3:
                options += ", keepdims=True"
            if self.random.random() < 0.3:
                options += f", initial={self.random.choice(('0', '1', '5'))}"
                if self.random.random() < 0.4:
                    operands["mask"] = self.elements(x.shape, "?")
                    options += ", where=mask"
        if how == "outer":
            return f"xp.{name}.outer(x, x)"
        places = "[0], " if how == "reduceat" else ""
        return f"xp.{name}.{how}(x, {places}axis={axis}{options})"

    def _fill(self, text: str, x: HostArray) -> str:
        low = self.random.choice(("-1", "0", "0.5", "None", "-300"))
        return text.format(
            axis=self.random.randint(-max(x.ndim, 1), max(x.ndim - 1, 0)), n=self.random.randint(-3, 3),
            few=self.random.randint(0, 3), low=low, high=self.random.choice(("1", "2.5", "3")),
        )  # fmt: skip

    def _whole(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        return self._fill(self.random.choice(_WHOLE), x)

    def _pair(self, x: HostArray, operands: dict[str, HostArray]) -> str:
        y = self.beside(x)
        text = self._fill(self.random.choice(_PAIRS), x)
        if isinstance(y, str):
            y = self.array((), None)
        if "matmul" in text or "@" in text or "dot" in text or "inner" in text:
            y = self.array(x.shape[::-1] if self.random.random() < 0.7 else x.shape[-1:])
        operands["y"] = y
        return text
