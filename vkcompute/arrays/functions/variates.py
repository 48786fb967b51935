"""Distributions that are functions of others, and those that NumPy draws on the host."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.arrays.algorithms.gather import take_along_axis
from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.algorithms.sorting import argsort
from vkcompute.arrays.expressions.promotion import default_float, default_int
from vkcompute.arrays.expressions.ufunc import apply, astype, where, written
from vkcompute.arrays.functions.called_names import named_methods
from vkcompute.arrays.functions.draws import drawn_per_run
from vkcompute.arrays.functions.manipulation import ravel
from vkcompute.arrays.functions.products import matmul
from vkcompute.arrays.functions.random_parameters import (
    Size,
    degrees_of_freedom,
    on_host,
    reals,
    require_in_range,
    require_within,
    shape_for,
    shape_of,
    shown,
)
from vkcompute.arrays.functions.reductions import sum as _sum
from vkcompute.errors import warn_caller
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.host_data import HostArray
from vkcompute.runtime.memory.layout import checked_shape
from vkcompute.runtime.runtime import Runtime, constant

_SMALL_SHAPE = 0.1
"""Shapes below which all gamma variates of a Dirichlet variate may be 0 in float32, as in NumPy's own rule."""


@named_methods
class Variates:
    """The part of a generator whose methods are functions of other distributions.

    Parameters are numbers or arrays. Methods "on the host" read them there, and NumPy draws the numbers, from a stream
    that the generator's seed and its number of calls determine.
    """

    if TYPE_CHECKING:
        random: Any
        standard_normal: Any
        standard_exponential: Any
        standard_gamma: Any
        chisquare: Any
        gamma: Any
        poisson: Any
        integers: Any

        def _runtime(self) -> Runtime: ...
        def _take(self, n_blocks: int) -> tuple[int, tuple[np.uint32, ...]]: ...
        def _scaled(self, numbers: Array, scale: Any, shift: Any = 0) -> Array: ...

    def _given(self, value: Any) -> Any:
        """Returns a parameter as a number or as a device array of the default float."""
        if type(value) is Array:
            return value if value.dtype == default_float() else astype(value, default_float())
        return float(value) if np.ndim(value) == 0 else self._runtime().array(np.asarray(value, default_float()))

    def _log_gamma(self, shapes: HostArray, size: tuple[int, ...]) -> Any:
        """Returns the logarithms of gamma variates, which are finite where the variates are too small for a float.

        G. Marsaglia, W. Tsang: A simple method for generating gamma variables. 2000. Section 6.
        """
        waits = apply("divide", self.standard_exponential(size), self._given(shapes))
        return apply("subtract", apply("log", self.standard_gamma(shapes + 1, size)), waits)

    def _log_mean_square(self, df: HostArray, size: tuple[int, ...], more: Any = 0) -> Any:
        """Returns the logarithms of chi-squared variates of `df` + 2 `more`, divided by `df`."""
        halves = np.maximum(df / 2, np.finfo(np.float32).tiny)
        return apply("subtract", self._log_gamma(np.asarray(halves + more), size), self._given(np.log(halves)))

    def _exponentials(self, size: Size, *parameters: Any) -> Any:
        """Returns exponential variates of mean 1, of the shape of results."""
        return self.standard_exponential(shape_for(size, *map(shape_of, parameters)))

    # -- functions of uniform, exponential, normal and gamma numbers --------------------------------------------------

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns floats of the double exponential distribution: differences of two exponential ones."""
        require_within("laplace", positive=False, scale=scale)
        one, other = (self._exponentials(size, loc, scale) for _ in range(2))
        return self._scaled(apply("subtract", one, other), scale, loc)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns floats of the logistic distribution."""
        require_within("logistic", positive=False, scale=scale)
        return self._scaled(apply("log", apply("expm1", self._exponentials(size, loc, scale))), scale, loc)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns floats of the Gumbel distribution."""
        require_within("gumbel", positive=False, scale=scale)
        drawn = apply("negative", apply("log", self._exponentials(size, loc, scale)))
        return self._scaled(drawn, scale, loc)

    def rayleigh(self, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns lengths of vectors of two normal numbers."""
        require_within("rayleigh", positive=False, scale=scale)
        return self._scaled(apply("sqrt", apply("multiply", self._exponentials(size, scale), 2.0)), scale, 0.0)

    def weibull(self, a: Any, size: Size = None) -> Array:
        """Returns floats of the Weibull distribution of shape `a`; 0 for a shape of 0."""
        require_within("weibull", positive=False, a=a)
        shapes = np.asarray(on_host(a), np.float64)
        inverse = self._given(np.divide(1.0, shapes, out=np.ones_like(shapes), where=shapes > 0))
        drawn = apply("exp", apply("multiply", apply("log", self._exponentials(size, a)), inverse))
        return apply("multiply", drawn, self._given(shapes > 0))

    def pareto(self, a: Any, size: Size = None) -> Array:
        """Returns floats of the Lomax distribution, Pareto's minus 1."""
        require_within("pareto", a=a)
        return apply("expm1", apply("divide", self._exponentials(size, a), self._given(a)))

    def power(self, a: Any, size: Size = None) -> Array:
        """Returns floats in [0, 1] with the density a * x**(a - 1)."""
        require_within("power", a=a)
        drawn = apply("negative", apply("expm1", apply("negative", self._exponentials(size, a))))  # uniform
        return apply("exp", apply("divide", apply("log", drawn), self._given(a)))

    def standard_cauchy(self, size: Size = None) -> Array:
        """Returns floats of the Cauchy distribution: quotients of normal numbers."""
        return apply("divide", self.standard_normal(size), self.standard_normal(size))

    def standard_t(self, df: Any, size: Size = None) -> Array:
        """Returns floats of Student's distribution of `df` degrees of freedom."""
        require_within("standard_t", df=df)
        shape = shape_for(size, shape_of(df))
        root = apply("exp", apply("multiply", self._log_mean_square(degrees_of_freedom("standard_t", df), shape), -0.5))
        return apply("multiply", self.standard_normal(shape), root)

    def f(self, dfnum: Any, dfden: Any, size: Size = None) -> Array:
        """Returns floats of Fisher's distribution of so many degrees of freedom."""
        require_within("f", dfnum=dfnum, dfden=dfden)
        return self.noncentral_f(dfnum, dfden, 0.0, size)

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Size = None) -> Array:
        """Returns sums of `df` squared normal numbers whose squared means add up to `nonc`."""
        require_within("noncentral_chisquare", df=df)
        require_within("noncentral_chisquare", positive=False, nonc=nonc)
        shape = shape_for(size, shape_of(df), shape_of(nonc))
        degrees = degrees_of_freedom("noncentral_chisquare", df)
        result: Array = self.chisquare(degrees + 2.0 * self._more(nonc, shape), shape)
        return result

    def _more(self, nonc: Any, shape: tuple[int, ...]) -> Any:
        """Returns how many pairs of degrees of freedom a squared mean adds to chi-squared variates."""
        means = reals("noncentral_chisquare", nonc)
        return self.poisson(means / 2, shape).numpy() if means.any() else 0

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Size = None) -> Array:
        """Returns quotients of mean squares, the first of `noncentral_chisquare`."""
        require_within("noncentral_f", dfnum=dfnum, dfden=dfden)
        require_within("noncentral_f", positive=False, nonc=nonc)
        shape = shape_for(size, *map(shape_of, (dfnum, dfden, nonc)))
        above, below = (degrees_of_freedom("noncentral_f", value) for value in (dfnum, dfden))
        one, other = self._log_mean_square(above, shape, self._more(nonc, shape)), self._log_mean_square(below, shape)
        return apply("exp", apply("subtract", one, other))

    def triangular(self, left: Any, mode: Any, right: Any, size: Size = None) -> Array:
        """Returns floats whose density rises from `left` to `mode`, and falls to `right`.

        Raises:
            ValueError: they are not in this order, or `left` is `right`.
        """
        low, top, high = (reals("triangular", value) for value in (left, mode, right))
        if not np.all((low <= top) & (top <= high) & (low < high)):
            given = ", ".join(map(shown, (left, mode, right)))
            raise ValueError(f"triangular: left <= mode <= right, and left < right; got {given}")
        for end in (left, right):
            require_in_range(default_float(), end)
        uniform = self.random(shape_for(size, low.shape, top.shape, high.shape))
        half = high / 2 - low / 2  # of the width, which may be beyond the range of floats
        rises = (top / 2 - low / 2) / half
        up = apply("sqrt", apply("multiply", uniform, self._given(rises)))
        rest = apply("multiply", apply("subtract", 1.0, uniform), self._given(1 - rises))
        down = apply("negative", apply("sqrt", rest))
        is_up = apply("less_equal", uniform, self._given(rises))
        step = apply("multiply", where(is_up, up, down), self._given(half))
        return apply("add", apply("add", where(is_up, self._given(low), self._given(high)), step), step)

    def wald(self, mean: Any, scale: Any, size: Size = None) -> Array:
        """Returns floats of the inverse Gaussian distribution.

        J. Michael, W. Schucany, R. Haas: Generating random variates using transformations with multiple roots. 1976.
        The smaller root is computed from the larger one, without cancellation.
        """
        require_within("wald", mean=mean, scale=scale)
        require_in_range(default_float(), mean)
        shape = shape_for(size, shape_of(mean), shape_of(scale))
        normal, uniform = self.standard_normal(shape), self.random(shape)
        mu, half = self._given(mean), self._given(np.asarray(on_host(mean)) / (2.0 * np.asarray(on_host(scale))))
        square = apply("multiply", apply("multiply", normal, normal), half)  # of the variate, halved and scaled
        root = apply("multiply", apply("sqrt", square), apply("sqrt", apply("add", square, 2.0)))
        larger = apply("multiply", apply("add", apply("add", square, 1.0), root), mu)
        smaller = apply("divide", mu, apply("add", apply("add", square, 1.0), root))
        is_small = apply("less_equal", uniform, apply("divide", mu, apply("add", smaller, mu)))
        return where(is_small, smaller, larger)

    # -- integers ------------------------------------------------------------------------------------------------------

    def geometric(self, p: Any, size: Size = None) -> Array:
        """Returns numbers of trials up to the first success of probability `p`; large ones have float32's precision."""
        require_within("geometric", p=p, most=1.0)
        with np.errstate(divide="ignore"):
            rate = -np.log1p(-np.asarray(on_host(p), np.float64))
        drawn = apply("floor", apply("divide", self._exponentials(size, p), self._given(rate)))
        integer = default_int(self._runtime())
        most = float(np.nextafter(np.float32(np.iinfo(integer).max), np.float32(0)))
        return apply("add", astype(apply("minimum", drawn, most), integer), 1)

    def negative_binomial(self, n: Any, p: Any, size: Size = None) -> Array:
        """Returns numbers of failures before `n` successes of probability `p`."""
        require_within("negative_binomial", n=n)
        require_within("negative_binomial", p=p, most=1.0)
        shape = shape_for(size, shape_of(n), shape_of(p))
        chance = np.asarray(on_host(p), np.float64)
        result: Array = self.poisson(self.gamma(on_host(n), (1 - chance) / chance, shape), shape)
        return result

    # -- several numbers -----------------------------------------------------------------------------------------------

    def dirichlet(self, alpha: Any, size: Size = None) -> Array:
        """Returns shares that add up to 1, along a new last axis; of the host if all of `alpha` are below 0.1."""
        shapes = np.asarray(on_host(alpha), np.float64)
        if shapes.ndim != 1 or not shapes.size:
            raise ValueError(f"dirichlet: alpha is a sequence of numbers; got the shape {shapes.shape}")
        require_within("dirichlet", alpha=shapes)
        if shapes.max() < _SMALL_SHAPE:
            return self._by_numpy("dirichlet", shapes, size=size)
        gammas = self.standard_gamma(shapes, (*(() if size is None else checked_shape(size)), shapes.size))
        return apply("divide", gammas, _sum(gammas, -1, keepdims=True))

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Size = None, check_valid: str = "warn", tol: float = 1e-8, *,
        method: str = "svd",
    ) -> Array:  # fmt: skip
        """Returns vectors of normal numbers, along a new last axis; the host factors the covariances.

        Args:
            mean: of shape (n,).
            cov: covariances, of shape (n, n).
            check_valid: "warn", "raise" or "ignore" for covariances that are not positive semidefinite.
            tol: of this check.
            method: "svd", "eigh" or "cholesky".

        Raises:
            ValueError: the shapes do not fit, or the covariances are not valid.
        """
        center, covariance = (np.asarray(on_host(value), np.float64) for value in (mean, cov))
        if center.ndim != 1 or covariance.shape != (center.size, center.size):
            raise ValueError(
                f"multivariate_normal: the mean has n numbers, and cov n rows of n; got {center.shape} and "
                f"{covariance.shape}"
            )
        factor = _factor(covariance, check_valid, tol, method)
        runtime, dtype = self._runtime(), default_float()
        shape = (*(() if size is None else checked_shape(size)), center.size)
        normal = self.standard_normal(shape)
        scaled = matmul(normal.reshape((-1, center.size)), constant(runtime, factor.T.astype(dtype)))
        return apply("add", scaled.reshape(shape), constant(runtime, center.astype(dtype)))

    def multinomial(self, n: Any, pvals: Any, size: Size = None) -> Array:
        """Returns how often each result occurs in `n` trials, along the last axis. On the host."""
        return self._by_numpy("multinomial", n, pvals, size=size)

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Size = None) -> Array:
        """Returns numbers of good ones in samples without replacement. On the host."""
        return self._by_numpy("hypergeometric", ngood, nbad, nsample, size=size)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: int, size: Size = None, method: str = "marginals"
    ) -> Array:
        """Returns how many of each color are in samples without replacement, along a new last axis. On the host."""
        return self._by_numpy("multivariate_hypergeometric", colors, nsample, size=size, method=method)

    def logseries(self, p: Any, size: Size = None) -> Array:
        """Returns integers of the logarithmic series distribution. On the host."""
        return self._by_numpy("logseries", p, size=size)

    def zipf(self, a: Any, size: Size = None) -> Array:
        """Returns integers k with probabilities in proportion to k**-a. On the host."""
        return self._by_numpy("zipf", a, size=size)

    def vonmises(self, mu: Any, kappa: Any, size: Size = None) -> Array:
        """Returns angles of the normal distribution of the circle. On the host."""
        return self._by_numpy("vonmises", mu, kappa, size=size)

    def bytes(self, length: int) -> bytes:
        """Returns random bytes, of Python."""
        return bytes(self.integers(0, 256, index(length), np.uint8).numpy().tobytes())

    def permuted(self, x: Any, *, axis: int | None = None, out: Array | None = None) -> Array:
        """Returns the elements in random order along an axis, another one for each line; without an axis, of all."""
        given = x if type(x) is Array else self._runtime().array(x)
        lines = ravel(given) if axis is None else given
        at = axis_of("permuted", lines.ndim, 0 if axis is None else axis)
        keys = self.integers(0, 2**32, lines.shape, np.uint32)
        shuffled = take_along_axis(lines, argsort(keys, at), at) if lines.size else lines.copy()
        return written(shuffled.reshape(given.shape), out)

    @drawn_per_run
    def _by_numpy(self, name: str, /, *args: Any, **named: Any) -> Array:
        """Returns numbers that NumPy draws on the host, as integers or floats of the default dtype."""
        start, keys = self._take(1)
        source = np.random.default_rng([start, *map(int, keys)])
        host = np.asarray(getattr(source, name)(*map(on_host, args), **named))
        runtime = self._runtime()
        return constant(runtime, host.astype(default_float() if host.dtype.kind == "f" else default_int(runtime)))


def _factor(covariance: HostArray, check_valid: str, tol: float, method: str) -> HostArray:
    """Returns a matrix whose product with its transposed is the covariances.

    Raises:
        ValueError: the method or the check is another, or the covariances are not valid.
        numpy.linalg.LinAlgError: "cholesky" takes positive definite ones only.
    """
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f'multivariate_normal: method is "svd", "eigh" or "cholesky"; got {method!r}')
    if check_valid not in ("warn", "raise", "ignore"):
        raise ValueError(f'multivariate_normal: check_valid is "warn", "raise" or "ignore"; got {check_valid!r}')
    if method == "cholesky":
        return np.linalg.cholesky(covariance)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    factor: HostArray = vectors * np.sqrt(np.maximum(values, 0))
    if check_valid != "ignore" and not np.allclose(factor @ factor.T, covariance, rtol=tol, atol=tol):
        rule = "multivariate_normal: the covariance is not symmetric positive-semidefinite"
        if check_valid == "raise":
            raise ValueError(f'{rule}; pass check_valid="ignore" to draw from the nearest one')
        warn_caller(rule, RuntimeWarning)
    return factor
