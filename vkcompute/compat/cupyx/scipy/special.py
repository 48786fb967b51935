"""The functions of `cupyx.scipy.special` that arrays have."""

from __future__ import annotations

from vkcompute.arrays.functions.ufunc_methods import function_of_elements as _function_of_elements
from vkcompute.compat.cupy.namespace import NAMES as _NAMES
from vkcompute.compat.cupy.ufuncs import ufunc as _ufunc

_ROWS = {"erf": "erf", "erfc": "erfc", "expit": "sigmoid", "gamma": "gamma", "gammaln": "lgamma", "xlogy": "xlogy"}
_ROWS.update({name: name for name in "erfcx i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtri y0 y1".split()})
_FUNCTIONS = {name: _ufunc(_function_of_elements(name, row), name) for name, row in _ROWS.items()}
_FUNCTIONS.update({name: _NAMES[name] for name in ("cbrt", "exp2", "expm1", "i0", "log1p", "sinc")})


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    raise AttributeError(f"cupyx.scipy.special has no {name} here; it has {', '.join(_FUNCTIONS)}", name=name)
