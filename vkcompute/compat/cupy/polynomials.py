"""CuPy's `poly1d`, and the functions of polynomials: their few coefficients are computed on the host, by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.conversion import asarray
from vkcompute.compat.cupy.lifting import lifted

_evaluate = lifted(vnp.polyval, host=True)


def _host(value: Any) -> Any:
    """Returns coefficients on the host."""
    if isinstance(value, poly1d):
        return value._poly
    return value.get() if isinstance(value, ndarray) else value


class poly1d:  # noqa: N801
    """A polynomial of one variable, as `cupy.poly1d`.

    Args:
        c_or_r: the coefficients, from the highest degree, or with `r` the roots; also a polynomial.
        variable: the name, "x" by default.
    """

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # as NumPy's

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        self._poly = np.poly1d(_host(c_or_r), bool(r), variable)

    @classmethod
    def _of(cls, polynomial: np.poly1d) -> poly1d:
        self = cls.__new__(cls)
        self._poly = polynomial
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("c", "coef", "coefficients", "coeffs", "_coeffs"):
            return asarray(self._poly.coeffs)
        if name in ("o", "order", "variable"):
            return getattr(self._poly, name)
        if name in ("r", "roots"):
            return asarray(self._poly.roots)
        raise AttributeError(f"'poly1d' object has no attribute {name!r}", name=name, obj=self)

    @property
    def __vkcompute_array__(self) -> Any:
        """The coefficients, for functions of arrays."""
        return self.coeffs._array

    def get(self, stream: Any = None, order: str = "C", out: Any = None) -> Any:
        """Returns the polynomial as `numpy.poly1d`; with `out`, its coefficients become these."""
        if out is None:
            return np.poly1d(self._poly)
        out.coeffs = self._poly.coeffs.copy()
        return out

    def set(self, polyin: Any, stream: Any = None) -> None:
        """Takes the coefficients of a `numpy.poly1d`."""
        if not isinstance(polyin, np.poly1d):
            raise TypeError("Only numpy.poly1d can be set to cupy.poly1d")
        self._poly = np.poly1d(polyin)

    def __call__(self, val: Any) -> Any:
        """Returns the polynomial at values, or of another polynomial."""
        if isinstance(val, ndarray):
            return _evaluate(asarray(self._poly.coeffs), val)
        return _result(self._poly(_host(val)))

    def deriv(self, m: int = 1) -> poly1d:
        """Returns the derivative."""
        return poly1d._of(self._poly.deriv(m))

    def integ(self, m: int = 1, k: Any = 0) -> poly1d:
        """Returns the integral."""
        return poly1d._of(self._poly.integ(m, _host(k)))

    def __getitem__(self, power: int) -> Any:
        return asarray(self._poly[power])

    def __setitem__(self, power: int, value: Any) -> None:
        self._poly[power] = _host(value)

    def __len__(self) -> int:
        return len(self._poly)

    def __iter__(self) -> Any:
        return iter(asarray(self._poly.coeffs))

    def __eq__(self, other: object) -> bool:
        return bool(self._poly == _host(other)) if isinstance(other, poly1d) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return bool(self._poly != _host(other)) if isinstance(other, poly1d) else NotImplemented

    def __pow__(self, value: Any) -> poly1d:
        return poly1d._of(self._poly ** _host(value))

    def __neg__(self) -> poly1d:
        return poly1d._of(-self._poly)

    def __pos__(self) -> poly1d:
        return self

    def __repr__(self) -> str:
        return repr(self._poly)

    def __str__(self) -> str:
        return str(self._poly)


def _result(value: Any) -> Any:
    """Returns a polynomial or an array of the host as CuPy's."""
    if isinstance(value, tuple):
        return tuple([_result(item) for item in value])
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.poly1d):
        return poly1d._of(value)
    return asarray(value)


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: poly1d, other: Any) -> Any:
        if isinstance(other, ndarray) and other._array.ndim > 1:
            raise ValueError("Multidimensional inputs are not supported")
        return _result(getattr(self._poly, name)(_host(other)))

    return operate


for _name in ("add", "sub", "mul", "truediv"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(poly1d, _method, _operator(_method))


def _routine(name: str) -> Callable[..., Any]:
    """Returns a function of polynomials of NumPy."""
    function = getattr(np, name)

    def call(*args: Any) -> Any:
        for value in args:
            if not isinstance(value, (poly1d, ndarray)) and not np.isscalar(value):
                raise TypeError("Unsupported type")
            if isinstance(value, ndarray) and value._array.ndim > 1:
                raise ValueError("Multidimensional inputs are not supported")
        return _result(function(*map(_host, args)))

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}` of polynomials, or of arrays of coefficients."
    return call


polyadd, polysub, polymul, polydiv = map(_routine, ("polyadd", "polysub", "polymul", "polydiv"))


def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Returns the coefficients of the polynomial that fits values best; as `numpy.polyfit`."""
    for value in (x, y):
        if isinstance(value, ndarray) and value._array.dtype == np.float16:
            raise TypeError("float16 unsupported for linalg functions")
    fit: Any = np.polyfit
    return _result(fit(_host(x), _host(y), deg, rcond, full, _host(w), cov))


def poly(seq_of_zeros: ndarray) -> Any:
    """Returns the coefficients of the polynomial with these roots."""
    roots = seq_of_zeros.get()
    if roots.ndim not in (1, 2) or (roots.ndim == 2 and (not roots.size or roots.shape[0] != roots.shape[1])):
        raise ValueError("Input must be 1d or non-empty square 2d array.")
    if roots.ndim == 2 and not np.array_equal(roots, roots.conj().T):
        raise NotImplementedError("Only complex Hermitian and real symmetric 2d arrays are supported currently")
    return asarray(np.poly(roots)) if roots.size else 1.0


def roots(p: Any) -> ndarray:
    """Returns the roots of a polynomial."""
    coefficients = np.atleast_1d(np.asarray(_host(p)))
    if isinstance(p, ndarray) and p._array.ndim == 0:
        raise TypeError("0-dimensional input is not allowed")
    if coefficients.ndim > 1:
        raise ValueError("Input must be 1d array.")
    return asarray(np.roots(coefficients))


def polyval(p: Any, x: Any) -> Any:
    """Returns a polynomial at values, or of another polynomial."""
    if isinstance(p, poly1d) or isinstance(x, poly1d):
        made = p if isinstance(p, poly1d) else poly1d(p)
        return made(x)
    if not isinstance(p, ndarray) or not (isinstance(x, ndarray) or np.isscalar(x)):
        raise TypeError("p must be cupy.ndarray or cupy.poly1d, and x an array, a scalar or a polynomial")
    if p._array.ndim != 1:
        raise ValueError("p must be 1d")
    result = _evaluate(p, x)
    is_bool = p.dtype == getattr(x, "dtype", np.asarray(x).dtype if np.isscalar(x) else None) == np.bool_
    return result.astype(bool) if is_bool else result
