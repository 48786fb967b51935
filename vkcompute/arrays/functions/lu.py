"""LU factors of matrices, by elimination in NumPy, which has no interface to LAPACK's getrf."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

HostArray = npt.NDArray[Any]
_PANEL = 64
"""Columns of a panel, which are eliminated one by one; one product updates the columns behind it."""


def factors(stack: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Returns P, L and U of matrices (…, m, n), for which P @ L @ U is the matrix.

    The pivot is the largest element of a column. G. H. Golub, C. F. Van Loan: Matrix Computations, 4th ed.
    (2013), 3.4.
    """
    *rest, m, n = stack.shape
    k = min(m, n)
    p, lower, upper = (np.zeros((*rest, *shape), stack.dtype) for shape in ((m, m), (m, k), (k, n)))
    for at in np.ndindex(*rest):
        eliminated, order = _eliminated(stack[at].copy())
        p[at][order, np.arange(m)] = 1
        lower[at] = np.tril(eliminated[:, :k], -1) + np.eye(m, k, dtype=stack.dtype)
        upper[at] = np.triu(eliminated[:k])
    return p, lower, upper


def _eliminated(a: HostArray) -> tuple[HostArray, HostArray]:
    """Overwrites a matrix with its factors; returns it, and the order of its rows."""
    order, k = np.arange(len(a)), min(a.shape)
    for start in range(0, k, _PANEL):
        stop = min(start + _PANEL, k)
        for j in range(start, stop):
            pivot = j + int(np.argmax(np.abs(a[j:, j])))
            if pivot != j:
                a[[j, pivot]], order[[j, pivot]] = a[[pivot, j]], order[[pivot, j]]
            if a[j, j] != 0:
                a[j + 1 :, j] /= a[j, j]
            a[j + 1 :, j + 1 : stop] -= np.outer(a[j + 1 :, j], a[j, j + 1 : stop])
        unit = np.tril(a[start:stop, start:stop], -1) + np.eye(stop - start, dtype=a.dtype)
        a[start:stop, stop:] = np.linalg.solve(unit, a[start:stop, stop:])
        a[stop:, stop:] -= a[stop:, start:stop] @ a[start:stop, stop:]
    return a, order
