"""Linear algebra: the Array API's extension, and functions of `numpy.linalg`.

Decompositions, and the functions that are made of them, are computed by LAPACK on the host; see each docstring.
"""

from __future__ import annotations

from vkcompute.arrays.linalg import LinAlgError as LinAlgError
from vkcompute.arrays.linalg import cholesky as cholesky
from vkcompute.arrays.linalg import cond as cond
from vkcompute.arrays.linalg import det as det
from vkcompute.arrays.linalg import diagonal as diagonal
from vkcompute.arrays.linalg import eig as eig
from vkcompute.arrays.linalg import eigh as eigh
from vkcompute.arrays.linalg import eigvals as eigvals
from vkcompute.arrays.linalg import eigvalsh as eigvalsh
from vkcompute.arrays.linalg import inv as inv
from vkcompute.arrays.linalg import lstsq as lstsq
from vkcompute.arrays.linalg import lu as lu
from vkcompute.arrays.linalg import matrix_norm as matrix_norm
from vkcompute.arrays.linalg import matrix_power as matrix_power
from vkcompute.arrays.linalg import matrix_rank as matrix_rank
from vkcompute.arrays.linalg import multi_dot as multi_dot
from vkcompute.arrays.linalg import norm as norm
from vkcompute.arrays.linalg import outer as outer
from vkcompute.arrays.linalg import pinv as pinv
from vkcompute.arrays.linalg import qr as qr
from vkcompute.arrays.linalg import slogdet as slogdet
from vkcompute.arrays.linalg import solve as solve
from vkcompute.arrays.linalg import svd as svd
from vkcompute.arrays.linalg import svdvals as svdvals
from vkcompute.arrays.linalg import tensorinv as tensorinv
from vkcompute.arrays.linalg import tensorsolve as tensorsolve
from vkcompute.arrays.linalg import trace as trace
from vkcompute.arrays.linalg import vector_norm as vector_norm
from vkcompute.arrays.manipulation import matrix_transpose as matrix_transpose
from vkcompute.arrays.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.products import cross as cross
from vkcompute.arrays.products import matmul as matmul
from vkcompute.arrays.products import tensordot as tensordot
from vkcompute.arrays.products import vecdot as vecdot

_accept_host_data(globals())
