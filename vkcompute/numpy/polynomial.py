"""NumPy's `polynomial` package, on the host; functions of device arrays return device arrays.

A polynomial, as `Polynomial([1, 2])`, that is called with a device array returns a NumPy array.
"""

from __future__ import annotations

from vkcompute.arrays.functions.host_polynomials import Polynomials as _Polynomials
from vkcompute.arrays.functions.host_polynomials import module as _module

chebyshev: _Polynomials = _module("chebyshev")
hermite: _Polynomials = _module("hermite")
hermite_e: _Polynomials = _module("hermite_e")
laguerre: _Polynomials = _module("laguerre")
legendre: _Polynomials = _module("legendre")
polynomial: _Polynomials = _module("polynomial")
Chebyshev, Hermite, HermiteE = chebyshev.Chebyshev, hermite.Hermite, hermite_e.HermiteE
Laguerre, Legendre, Polynomial = laguerre.Laguerre, legendre.Legendre, polynomial.Polynomial
