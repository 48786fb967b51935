"""Linear algebra.

Products, norms of vectors, powers, and those norms of matrices that need no singular values are computed on the device.
Decompositions, and the functions that are made of them, are computed by LAPACK on the host: `numpy.linalg` gets a copy,
and its result is copied to the device. Integers become the default float, and float16 is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.linalg import LinAlgError as LinAlgError

from vkcompute.arrays.algorithms.lines import axes_of
from vkcompute.arrays.expressions.promotion import complex_of, default_int, floating
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions import creation, products, reductions
from vkcompute.arrays.functions.einsum import einsum
from vkcompute.arrays.functions.lu import factors
from vkcompute.arrays.functions.manipulation import expand_dims, moveaxis
from vkcompute.dtypes import finfo
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.host_data import HostArray

Axis = int | tuple[int, ...] | None


class EigResult(NamedTuple):
    """Eigenvalues, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and orthonormal eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthonormal and an upper triangular factor."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


class LUResult(NamedTuple):
    """A permutation, a lower and an upper triangular factor."""

    P: Array
    L: Array
    U: Array


class LstsqResult(NamedTuple):
    """A least-squares solution, its squared residuals, and the rank and singular values of the matrix."""

    x: Array
    residuals: Array
    rank: Array
    s: Array


# -- by LAPACK, on the host --------------------------------------------------------------------------------------------


def _by_lapack(name: str, function: Callable[..., Any], *arrays: Any) -> list[Array]:
    """Returns the results of a function of NumPy arrays, as device arrays in the dtype of the operands.

    Args:
        function: gets the arrays in float32 or float64 (complex64 or complex128); returns one array or several.

    Raises:
        TypeError: an operand is not a device array.
        LinAlgError: as numpy's, or the first array has fewer than two axes.
    """
    dtype = products.require_arrays(name, *arrays)
    dtype = dtype if dtype.kind == "c" else floating(dtype)
    if arrays[0].ndim < 2:
        raise LinAlgError(f"{name} takes matrices, with two axes or more; got shape {arrays[0].shape}")
    result = function(*[array.numpy().astype(products.accumulator_dtype(dtype), copy=False) for array in arrays])
    results = result if isinstance(result, tuple) else (result,)
    runtime = arrays[0].runtime
    return [runtime.array(_in_kind(np.asarray(value), dtype, default_int(runtime))) for value in results]


def _in_kind(host: HostArray, dtype: np.dtype[Any], integer: np.dtype[Any]) -> HostArray:
    """Converts results to a dtype of their kind: real parts of complex matrices stay real."""
    if host.dtype.kind in "iu":
        return host.astype(integer)
    if host.dtype.kind == dtype.kind:
        return host.astype(dtype)
    return host.astype(f"{'f' if host.dtype.kind == 'f' else 'c'}{host.dtype.itemsize}")


def _of_square(name: str, x: Array) -> None:
    if type(x) is Array and (x.ndim < 2 or x.shape[-1] != x.shape[-2]):
        raise LinAlgError(f"{name} takes square matrices; got shape {x.shape}")


def cholesky(a: Array, *, upper: bool = False) -> Array:
    """Returns the lower, or upper, triangular factor of positive definite matrices. On the host.

    Raises:
        LinAlgError: a matrix is not positive definite, or not square.
    """
    _of_square("cholesky", a)

    def factor(host: HostArray) -> HostArray:
        return np.linalg.cholesky(host.swapaxes(-1, -2)).swapaxes(-1, -2) if upper else np.linalg.cholesky(host)

    return _by_lapack("cholesky", factor, a)[0]


def det(a: Array) -> Array:
    """Returns the determinants of square matrices. On the host."""
    _of_square("det", a)
    return _by_lapack("det", np.linalg.det, a)[0]


def slogdet(a: Array) -> SlogdetResult:
    """Returns signs and logarithms of the absolute values of determinants. On the host."""
    _of_square("slogdet", a)
    return SlogdetResult(*_by_lapack("slogdet", lambda host: tuple(np.linalg.slogdet(host)), a))


def inv(a: Array) -> Array:
    """Returns the inverses of square matrices. On the host.

    Raises:
        LinAlgError: a matrix is singular, or not square.
    """
    _of_square("inv", a)
    return _by_lapack("inv", np.linalg.inv, a)[0]


def solve(a: Array, b: Array) -> Array:
    """Returns the solutions of linear equations, for one vector, or for the columns of matrices. On the host.

    Args:
        a: square matrices of coefficients.
        b: a vector, or matrices; stacks broadcast.

    Raises:
        LinAlgError: a matrix is singular, or not square.
    """
    _of_square("solve", a)

    def solved(left: HostArray, right: HostArray) -> HostArray:
        return np.linalg.solve(left, right[:, None])[..., 0] if right.ndim == 1 else np.linalg.solve(left, right)

    return _by_lapack("solve", solved, a, b)[0]


def lstsq(a: Array, b: Array, rcond: float | None = None) -> LstsqResult:
    """Returns the solution of least squares, and of least norm among several. On the host."""
    x, residuals, rank, s = _by_lapack("lstsq", lambda x, y: np.linalg.lstsq(x, y, rcond), a, b)
    return LstsqResult(x, residuals, astype(rank, np.int32), s)


def _triangle(name: str, UPLO: Any) -> Literal["L", "U"]:  # noqa: N803
    """Returns the name of a triangle in upper case.

    Raises:
        ValueError: it is another.
    """
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f'{name}: UPLO is "L" for the lower triangle or "U" for the upper one; got {UPLO!r}')
    return "U" if UPLO in ("U", "u") else "L"


def eigh(a: Array, UPLO: Literal["L", "U"] = "L") -> EighResult:  # noqa: N803
    """Returns eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read. On the host."""
    _of_square("eigh", a)
    return EighResult(*_by_lapack("eigh", lambda host: tuple(np.linalg.eigh(host, _triangle("eigh", UPLO))), a))


def eigvalsh(a: Array, UPLO: Literal["L", "U"] = "L") -> Array:  # noqa: N803
    """Returns eigenvalues of symmetric matrices, in ascending order. On the host."""
    _of_square("eigvalsh", a)
    return _by_lapack("eigvalsh", lambda host: np.linalg.eigvalsh(host, _triangle("eigvalsh", UPLO)), a)[0]


def eig(a: Array) -> EigResult:
    """Returns eigenvalues and eigenvectors of square matrices, which are complex. On the host."""
    _of_square("eig", a)
    return EigResult(*map(_complex, _by_lapack("eig", lambda host: tuple(np.linalg.eig(host)), a)))


def eigvals(a: Array) -> Array:
    """Returns eigenvalues of square matrices, which are complex. On the host."""
    _of_square("eigvals", a)
    return _complex(_by_lapack("eigvals", np.linalg.eigvals, a)[0])


def _complex(x: Array) -> Array:
    """Returns eigenvalues of any matrix as complex numbers: the dtype must not depend on the elements."""
    return astype(x, complex_of(x.dtype))


def qr(a: Array, mode: Literal["reduced", "complete", "r", "raw"] = "reduced") -> Any:
    """Returns an orthonormal and an upper triangular factor, as a `QRResult`. On the host.

    Args:
        mode: "reduced", or "complete" for a square `Q`; "r" for the triangular factor alone; "raw" for the tuple of
            the transposed matrix of LAPACK, with the reflectors, and their factors.
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f'the mode of qr is "reduced", "complete", "r" or "raw"; got {mode!r}')
    if mode == "raw":
        return tuple(_by_lapack("qr", lambda host: tuple(np.linalg.qr(host, mode)), a))
    if mode == "r":
        return _by_lapack("qr", lambda host: np.linalg.qr(host, mode), a)[0]
    return QRResult(*_by_lapack("qr", lambda host: tuple(np.linalg.qr(host, mode)), a))


def lu(a: Array) -> LUResult:
    """Returns a permutation matrix, a lower triangular factor with ones on the diagonal, and an upper one. On the host.

    `P @ L @ U` is the matrix, of any shape (…, m, n), as of `scipy.linalg.lu`.
    """
    return LUResult(*_by_lapack("lu", factors, a))


def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Returns singular values and vectors. On the host.

    Args:
        full_matrices: True for square matrices of vectors.
        compute_uv: False to return the singular values alone.
        hermitian: True if the matrices are Hermitian, for a faster method.
    """
    compute: Any = np.linalg.svd
    if not compute_uv:
        return _by_lapack("svd", lambda host: compute(host, compute_uv=False, hermitian=hermitian), a)[0]
    return SVDResult(*_by_lapack("svd", lambda host: tuple(compute(host, full_matrices, hermitian=hermitian)), a))


def svdvals(x: Array, /) -> Array:
    """Returns singular values, in descending order. On the host."""
    return _by_lapack("svdvals", lambda host: np.linalg.svd(host, compute_uv=False), x)[0]


def _relative(a: HostArray, rtol: Any) -> HostArray:
    """Returns the tolerance of singular values, relative to the largest one."""
    if rtol is None:
        return np.asarray(max(a.shape[-2:]) * finfo(a.dtype).eps, a.real.dtype)
    return np.asarray(rtol.numpy() if type(rtol) is Array else rtol)


def matrix_rank(
    A: Array, tol: float | Array | None = None, hermitian: bool = False, *,  # noqa: N803
    rtol: float | Array | None = None,
) -> Array:  # fmt: skip
    """Returns the number of singular values above `tol`, or above `rtol` times the largest one. On the host.

    The rank of a vector or a number is 1, or 0 if all is 0.

    Args:
        tol: an absolute limit.
        hermitian: True if the matrices are Hermitian, for a faster method.
        rtol: by default the longer side of the matrix, times the epsilon of its dtype.

    Raises:
        ValueError: both limits are given.
    """
    if tol is not None and rtol is not None:
        raise ValueError(f"matrix_rank takes tol or rtol; got {tol} and {rtol}")
    if A.ndim < 2:
        return astype(reductions.any(A), default_int(A.runtime))

    def rank(host: HostArray) -> Any:
        singular = np.linalg.svd(host, compute_uv=False, hermitian=hermitian)
        largest = singular.max(axis=-1, keepdims=True, initial=0)
        limit = largest * _relative(host, rtol)[..., None] if tol is None else _relative(host, tol)[..., None]
        return np.asarray(singular > limit).sum(axis=-1)

    return _by_lapack("matrix_rank", rank, A)[0]


def pinv(
    a: Array, rcond: float | Array | None = None, hermitian: bool = False, *, rtol: float | Array | None = None
) -> Array:
    """Returns the Moore-Penrose pseudo-inverses of matrices. On the host.

    Args:
        rcond: NumPy's older name for `rtol`.
        hermitian: True if the matrices are Hermitian, for a faster method.
        rtol: as of `matrix_rank`.
    """
    if rtol is not None and rcond is not None:
        raise ValueError("pinv takes rtol or rcond, its older name; got both; pass rtol")
    limit = rtol if rcond is None else rcond
    return _by_lapack("pinv", lambda host: np.linalg.pinv(host, _relative(host, limit), hermitian), a)[0]


def tensorsolve(a: Array, b: Array, axes: Sequence[int] | None = None) -> Array:
    """Returns the x for which tensordot(a, x, x.ndim) is `b`. On the host.

    Args:
        axes: of `a`, which are moved behind the others first.
    """
    moved = a if axes is None else a.transpose(tuple([at for at in range(a.ndim) if at not in axes] + [*axes]))
    shape = moved.shape[b.ndim :]
    if math.prod(shape) != b.size:
        raise LinAlgError(f"tensorsolve takes as many unknowns as equations; got {math.prod(shape)} and {b.size}")
    return solve(moved.reshape((b.size, b.size)), b.reshape(-1)).reshape(shape)


def tensorinv(a: Array, ind: int = 2) -> Array:
    """Returns the inverse of `a` for tensordot(a, x, ind). On the host.

    Args:
        ind: the number of first axes of `a`, which are the last ones of the result.
    """
    if ind <= 0:
        raise ValueError(f"tensorinv takes one axis or more; got {ind}")
    rows = math.prod(a.shape[:ind])
    if rows * rows != a.size:
        raise LinAlgError(f"the first {ind} axes of tensorinv have as many elements as the rest; got shape {a.shape}")
    return inv(a.reshape((rows, rows))).reshape((*a.shape[ind:], *a.shape[:ind]))


def cond(x: Array, p: Any = None) -> Array:
    """Returns the condition numbers of matrices, in a norm; by default the ratio of singular values. On the host."""
    return _by_lapack("cond", lambda host: np.linalg.cond(host, p), x)[0]


# -- on the device -----------------------------------------------------------------------------------------------------


def _real(name: str, x: Array) -> Array:
    """Returns the absolute values, in at least 32 bits."""
    products.require_arrays(name, x)
    dtype = products.accumulator_dtype(floating(x.dtype)) if x.dtype.kind != "c" else x.dtype
    return apply("absolute", products.converted(x, dtype))


def _result_of(x: Array, norms: Array) -> Array:
    dtype = floating(x.dtype) if x.dtype.kind != "c" else norms.dtype
    return products.converted(norms, dtype)


def _extreme(sizes: Array, axis: Axis, ord: float, *, keepdims: bool = True) -> Array:
    """Returns the largest of sizes along an axis, or the smallest for a negative order; the largest of none is 0."""
    if ord < 0:
        return reductions.min(sizes, axis, keepdims=keepdims)
    return reductions.max(sizes, axis, keepdims=keepdims, initial=None if sizes.size else 0)


def vector_norm(x: Array, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Returns the norms of vectors: of all elements, or of those along axes.

    Args:
        ord: p for (sum |x|**p)**(1/p); `math.inf` and -`math.inf` for the largest and the smallest absolute value; 0
            for the number of non-zero elements.
    """
    size = _real("vector_norm", x)
    if ord in (math.inf, -math.inf):
        return _result_of(x, _extreme(size, axis, ord, keepdims=keepdims))
    if ord == 0:
        return _result_of(x, astype(reductions.count_nonzero(size, axis, keepdims=keepdims), size.dtype))
    if ord == 1:
        return _result_of(x, reductions.sum(size, axis, keepdims=keepdims))
    if ord == 2:
        total = reductions.sum(apply("multiply", size, size), axis, keepdims=keepdims)
        return _result_of(x, apply("sqrt", total))
    total = reductions.sum(apply("power", size, size.dtype.type(ord)), axis, keepdims=keepdims)
    return _result_of(x, apply("power", total, size.dtype.type(1 / ord)))


_BY_SUMS = {1: -2, -1: -2, math.inf: -1, -math.inf: -1}


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Returns the norms of matrices.

    Args:
        ord: "fro" for the root of squares; 1 and -1 for the largest and the smallest sum of a column, `math.inf` and
            -`math.inf` for those of a row. 2, -2 and "nuc" give the largest and the smallest singular value, and the
            sum of all; these are computed on the host.
    """
    products.require_arrays("matrix_norm", x)
    if x.ndim < 2:
        raise ValueError(f"matrix_norm takes matrices, with two axes or more; got shape {x.shape}")
    if ord in ("fro", None):
        return vector_norm(x, axis=(x.ndim - 2, x.ndim - 1), keepdims=keepdims)
    if ord in _BY_SUMS:
        totals = reductions.sum(_real("matrix_norm", x), _BY_SUMS[ord], keepdims=True)
        norms = _extreme(totals, -3 - _BY_SUMS[ord], ord)
    elif ord in (2, -2, "nuc"):
        values = svdvals(x)
        values = expand_dims(values, -1) if values.size else values.reshape((*values.shape, 1))
        norms = reductions.sum(values, -2, keepdims=True) if ord == "nuc" else _extreme(values, -2, ord)
    else:
        raise ValueError(f'the order of matrix_norm is "fro", "nuc", 1, -1, 2, -2, inf or -inf; got {ord!r}')
    norms = _result_of(x, norms)
    return norms if keepdims else norms.reshape(norms.shape[:-2])


def norm(x: Array, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Returns norms as `numpy.linalg.norm`: of a vector or matrix; along one axis, of vectors; along two, of matrices.

    Args:
        ord: that of `vector_norm` or `matrix_norm`; None for the root of all squares.
    """
    products.require_arrays("norm", x)
    axes = axes_of("norm", x.ndim, axis)
    if (ord is None and (axis is None or len(axes) == 2)) or len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"norms along axes are of one axis or two; got axis {axis} of shape {x.shape}")
    norms = matrix_norm(moveaxis(x, axes, (-2, -1)), ord=ord)
    if not keepdims:
        return norms
    return norms.reshape(tuple([1 if at in axes else n for at, n in enumerate(x.shape)]))


def matrix_power(a: Array, n: int) -> Array:
    """Returns square matrices multiplied with themselves; for a negative `n` their inverses.

    Raises:
        LinAlgError: the matrices are not square, or singular.
    """
    products.require_arrays("matrix_power", a)
    _of_square("matrix_power", a)
    if n == 0:
        one = creation.eye(a.shape[-1], dtype=a.dtype, device=a.runtime)
        return one.broadcast_to(a.shape).copy() if a.size else creation.zeros_like(a, device=a.runtime)
    square = inv(a) if n < 0 else a.copy()
    power, left = square, abs(n) - 1
    while left:
        if left & 1:
            power = products.matmul(power, square)
        left >>= 1
        if left:
            square = products.matmul(square, square)
    return power


def multi_dot(arrays: Sequence[Array], *, out: Array | None = None) -> Array:
    """Returns the product of two or more matrices, in the order that needs least work; the ends may be vectors."""
    if len(arrays) < 2:
        raise ValueError(f"multi_dot takes two matrices or more; got {len(arrays)}")
    products.require_arrays("multi_dot", *arrays)
    ends = {0, len(arrays) - 1}
    for at, array in enumerate(arrays):
        if array.ndim != 2 and not (array.ndim == 1 and at in ends):
            raise LinAlgError(f"multi_dot takes matrices, and vectors at the ends; got shape {array.shape} at {at}")
    labels = [[at, at + 1] for at in range(len(arrays))]
    labels[0], labels[-1] = labels[0][2 - arrays[0].ndim :], labels[-1][: arrays[-1].ndim]
    result = [label for label in (0, len(arrays)) if label in (labels[0][0], labels[-1][-1])]
    return einsum(*[operand for pair in zip(arrays, labels, strict=True) for operand in pair], result, out=out)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Returns a view of the diagonals of matrices: of the last two axes."""
    return products.diagonal(x, offset, -2, -1)


def trace(x: Array, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the sums of the diagonals of matrices: of the last two axes."""
    return products.trace(x, offset, -2, -1, dtype)


def outer(x1: Array, x2: Array, /) -> Array:
    """Returns the products of all elements of a vector, one per row, with all of another."""
    products.require_arrays("outer", x1, x2)
    if (x1.ndim, x2.ndim) != (1, 1):
        raise ValueError(f"outer takes vectors; got shapes {x1.shape} and {x2.shape}")
    return products.outer(x1, x2)
