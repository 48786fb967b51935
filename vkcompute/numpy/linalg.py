"""Linear algebra: the Array API's extension, and functions of `numpy.linalg`.

Decompositions, and the functions that are made of them, are computed by LAPACK on the host; see each docstring.
"""

from __future__ import annotations

from vkcompute.arrays.functions.linalg import LinAlgError as LinAlgError
from vkcompute.arrays.functions.linalg import cholesky as cholesky
from vkcompute.arrays.functions.linalg import cond as cond
from vkcompute.arrays.functions.linalg import det as det
from vkcompute.arrays.functions.linalg import diagonal as diagonal
from vkcompute.arrays.functions.linalg import eig as eig
from vkcompute.arrays.functions.linalg import eigh as eigh
from vkcompute.arrays.functions.linalg import eigvals as eigvals
from vkcompute.arrays.functions.linalg import eigvalsh as eigvalsh
from vkcompute.arrays.functions.linalg import inv as inv
from vkcompute.arrays.functions.linalg import lstsq as lstsq
from vkcompute.arrays.functions.linalg import lu as lu
from vkcompute.arrays.functions.linalg import matrix_norm as matrix_norm
from vkcompute.arrays.functions.linalg import matrix_power as matrix_power
from vkcompute.arrays.functions.linalg import matrix_rank as matrix_rank
from vkcompute.arrays.functions.linalg import multi_dot as multi_dot
from vkcompute.arrays.functions.linalg import norm as norm
from vkcompute.arrays.functions.linalg import outer as outer
from vkcompute.arrays.functions.linalg import pinv as pinv
from vkcompute.arrays.functions.linalg import qr as qr
from vkcompute.arrays.functions.linalg import slogdet as slogdet
from vkcompute.arrays.functions.linalg import solve as solve
from vkcompute.arrays.functions.linalg import svd as svd
from vkcompute.arrays.functions.linalg import svdvals as svdvals
from vkcompute.arrays.functions.linalg import tensorinv as tensorinv
from vkcompute.arrays.functions.linalg import tensorsolve as tensorsolve
from vkcompute.arrays.functions.linalg import trace as trace
from vkcompute.arrays.functions.linalg import vector_norm as vector_norm
from vkcompute.arrays.functions.manipulation import matrix_transpose as matrix_transpose
from vkcompute.arrays.functions.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.functions.products import cross as cross
from vkcompute.arrays.functions.products import matmul as matmul
from vkcompute.arrays.functions.products import tensordot as tensordot
from vkcompute.arrays.functions.products import vecdot as vecdot

_accept_host_data(globals())
