"""The operators, methods and views of CuPy's arrays: those of ours, with CuPy's dtypes and signatures."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute.array_namespace import methods
from vkcompute.arrays.functions import files
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.lifting import lifted, unwrapped, wrapped
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.layout import is_empty

_PROPERTIES = "T", "dtype", "flags", "nbytes", "ndim", "size", "strides"
_OF_ARRAY = (
    "__bool__", "__complex__", "__copy__", "__divmod__", "__float__", "__index__", "__int__", "__len__",
    "__rdivmod__", "__dlpack__", "__dlpack_device__", "copy", "item", "tobytes", "tolist", "transpose", "view",
    "__deepcopy__", "reshape",
)  # fmt: skip
_EQUALITY = "__eq__", "__ne__"
_full_like = lifted(vnp.full_like)
_COMPLEX = "Casting complex values to real discards the imaginary part"


def _property(name: str) -> property:
    """Returns a read-only property that is that of the array held."""
    getter = getattr(Array, name).fget

    def get(self: ndarray) -> Any:
        return wrapped(getter(self._array), (self,))

    return property(get, doc=getter.__doc__)


def _part(name: str) -> property:
    """Returns the property of the real or the imaginary parts, which can be assigned."""

    def get(self: ndarray) -> Any:
        part = getattr(self._array, name)
        return self if part is self._array else wrapped(part, (self,))

    def put(self: ndarray, value: Any) -> None:
        setattr(self._array, name, unwrapped(value))

    return property(get, put, doc=f"The {name} parts of the elements.")


def _operator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an operator, which leaves an array of NumPy and unknown operands to their type."""
    method = lifted(function, host=True)

    @wraps(function)
    def operate(self: ndarray, other: Any, *modulus: Any) -> Any:
        if isinstance(other, (list, tuple)) or (isinstance(other, np.ndarray) and other.ndim):
            return NotImplemented if isinstance(other, (list, tuple)) else _refused(other)
        result = method(self, other, *modulus)
        if result is NotImplemented and name in _EQUALITY and getattr(type(other), name) is getattr(object, name):
            if getattr(type(other), "__eq__") is not getattr(object, "__eq__"):  # noqa: B009  # Python inverts it, for the whole array
                raise TypeError(f"Unsupported type {type(other)}")
            return _full_like(self, name == "__ne__", dtype=bool)  # no number equals an object such as None
        return result

    return operate


def _refused(other: Any) -> Any:
    raise TypeError(f"Unsupported type {type(other)}")


def _indexed(array: Array, index: Any) -> Array:
    """Returns `array[index]`; by `()`, a view of the element of an array without axes, as in CuPy."""
    return array[... if is_empty(index) else index]


def _install() -> None:
    """Sets the attributes of the class."""
    for name in _PROPERTIES:
        setattr(ndarray, name, _property(name))
    for name in ("real", "imag"):
        setattr(ndarray, name, _part(name))
    setattr(ndarray, "__getitem__", lifted(_indexed, host=True))  # noqa: B010
    for name in _OF_ARRAY:
        setattr(ndarray, name, lifted(getattr(Array, name)))
    for name, value in methods().items():
        if isinstance(value, property):
            setattr(ndarray, name, _lifted_property(value))
        elif not name.startswith("_") or name in ("__neg__", "__pos__", "__invert__", "__abs__", "__round__"):
            setattr(ndarray, name, lifted(value))
        elif name in ("__array_ufunc__", "__array_function__", "__array_namespace__", "__contains__"):
            continue
        elif name.startswith("__"):
            setattr(ndarray, name, _operator(name, value))
    for name, value in vars(_Methods).items():
        if not name.startswith("__") or name.startswith("__array") or name in ("__bytes__", "__iter__", "__setitem__"):
            setattr(ndarray, name, value)


class _Methods(ndarray):
    """The methods that are more than those of the array held."""

    __slots__ = ()

    def scatter_add(self, slices: Any, value: Any) -> None:
        """Adds values at indices, which may repeat."""
        scatter("add", self, slices, value)

    def scatter_max(self, slices: Any, value: Any) -> None:
        """Sets elements at indices to the maximum of them and values."""
        scatter("maximum", self, slices, value)

    def scatter_min(self, slices: Any, value: Any) -> None:
        """Sets elements at indices to the minimum of them and values."""
        scatter("minimum", self, slices, value)

    def toDlpack(self) -> Any:  # noqa: N802
        """Returns the capsule of DLPack."""
        return self._array.__dlpack__()

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: bool | None = None, copy: bool = True
    ) -> ndarray:
        """Returns the elements in another dtype, by default in the order of this array; the real parts as others."""
        if self._array.dtype.kind == "c" and np.dtype(dtype).kind in "iuf" and casting in (None, "unsafe"):
            warnings.warn(_COMPLEX, np.exceptions.ComplexWarning, stacklevel=2)
            return self.real.astype(dtype, order)  # type: ignore[no-any-return]
        return _astype(self, dtype, order, casting or "unsafe", copy=copy)  # type: ignore[no-any-return]

    def conj(self, out: Any = None) -> Any:
        """Returns the conjugates; of real numbers the array itself."""
        return self if out is None and self._array.dtype.kind != "c" else _conj(self, out)

    conjugate = conj

    def ravel(self, order: str = "C") -> ndarray:
        """Returns the elements along one axis, without gaps."""
        result: ndarray = _ravel(self, order)
        return result if result._array.contiguous else result.copy()

    def ptp(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Returns the distance from the minimum to the maximum along axes."""
        return _ptp(self, axis, out, keepdims)

    def argmax(self, axis: Any = None, out: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Returns the index of the first largest element along an axis, or in the flattened array."""
        result = _argmax(self, axis, out, keepdims)
        return result if dtype is None or out is not None else result.astype(dtype)

    def argmin(self, axis: Any = None, out: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Returns the index of the first smallest element along an axis, or in the flattened array."""
        result = _argmin(self, axis, out, keepdims)
        return result if dtype is None or out is not None else result.astype(dtype)

    def __iter__(self) -> Any:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[at] for at in range(len(self)))

    def __bytes__(self) -> bytes:
        return self.get().tobytes()

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim and not self.flags.c_contiguous:
            view = self[at]
            if not view.flags.c_contiguous and not view.flags.f_contiguous:
                raise ValueError("an array of NumPy is assigned to contiguous elements; assign cupy.asarray(value)")
        _set(self, at, cast(value, self._array.dtype))

    def fill(self, value: Any) -> None:
        """Sets every element."""
        given = unwrapped(value)
        if isinstance(given, Array):
            if given.ndim:
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
            self._array[...] = unwrapped(cast(value, self._array.dtype))
            return
        self._array.fill(cast(given, self._array.dtype))

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Writes the elements to a file, as NumPy does."""
        files.write_whole(fid, "", lambda file: self.get().tofile(file, sep, format))

    def dump(self, file: Any) -> None:
        """Pickles the array to a file."""
        files.write_whole(file, "", self.get().dump)

    def dumps(self) -> bytes:
        """Returns the pickled array."""
        return self.get().dumps()

    def reduced_view(self, dtype: Any = None) -> ndarray:
        """Returns the array itself."""
        return self

    @property
    def flat(self) -> flatiter:
        """The elements in row-major order."""
        return flatiter(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self._array.flat = unwrapped(values)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Calls CuPy's function of elements of NumPy's name."""
        ours = _counterpart((function.__name__,))
        if any(isinstance(value, np.ndarray) and value.ndim for value in inputs):
            raise TypeError("operands are arrays of the device, and of NumPy; convert with cupy.asarray, or x.get()")
        if ours is None:
            return NotImplemented
        if isinstance(out := options.get("out"), tuple):
            options["out"] = out[0] if len(out) == 1 else out
        return (ours if method == "__call__" else getattr(ours, method))(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Calls CuPy's function of NumPy's name."""
        path = [*function.__module__.split(".")[1:], function.__name__]
        ours = _counterpart(path[-1:] if path[0].startswith(("lib", "_")) else path)
        if ours is None or any(kind is not ndarray and issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        return ours(*args, **options)


_conj, _ravel = lifted(vnp.conj), lifted(vnp.ravel)
_astype, _ptp, _set = lifted(vnp.astype), lifted(vnp.ptp), lifted(Array.__setitem__, host=True)


_argmax, _argmin = lifted(vnp.argmax), lifted(vnp.argmin)


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a value of a higher kind than a dtype in this dtype, as assignments of NumPy convert it."""
    if isinstance(value, ndarray):
        return value if np.can_cast(value._array.dtype, dtype, "same_kind") else value.astype(dtype)
    if isinstance(value, (float, complex, np.generic, np.ndarray, list, tuple)):
        host = np.asarray(unwrapped(value)) if not _has_arrays(value) else None
        if host is not None and host.dtype != object and not np.can_cast(host.dtype, dtype, "same_kind"):
            return host.astype(dtype)[()]
    return value


def _has_arrays(value: Any) -> bool:
    """True for a sequence with arrays of the device."""
    return isinstance(value, (list, tuple)) and any(isinstance(x, ndarray) or _has_arrays(x) for x in value)


def _counterpart(path: Sequence[str]) -> Any:
    """Returns the name of CuPy at a path; None if there is none."""
    value: Any = sys.modules[__name__.rpartition(".")[0]]
    for part in path:
        value = getattr(value, part, None)
    return value


def scatter(name: str, array: ndarray, slices: Any, value: Any) -> None:
    """Combines elements at indices with values, by a function of elements."""
    given = vnp.asarray(unwrapped(value), device=array._array.runtime)
    at = unwrapped(slices)
    getattr(vnp, name).at(array._array, at, given.astype(array._array.dtype))


class flatiter:  # noqa: N801
    """The elements of an array in row-major order, as `cupy.flatiter`.

    Attributes:
        base: the array.
    """

    def __init__(self, a: ndarray) -> None:
        self.base, self._at = a, 0

    def __len__(self) -> int:
        return int(self.base._array.size)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, bool) or not (
            isinstance(at, (int, slice, np.integer)) or at is Ellipsis or (isinstance(at, tuple) and not at)
        ):
            raise IndexError("unsupported iterator index")
        return wrapped(self.base._array.flat[unwrapped(at)])

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(at, bool) or not (isinstance(at, (int, slice, np.integer)) or at is Ellipsis):
            raise IndexError("unsupported iterator index")
        given = unwrapped(cast(value, self.base._array.dtype))
        if isinstance(given, Array) and not isinstance(at, (int, np.integer)):  # repeated as often as it takes
            n = len(range(*at.indices(len(self)))) if isinstance(at, slice) else len(self)
            given = vnp.resize(given, n)
        self.base._array.flat[unwrapped(at)] = given

    def __iter__(self) -> flatiter:
        return self

    def __next__(self) -> Any:
        if self._at >= len(self):
            raise StopIteration
        self._at += 1
        return self[self._at - 1]

    def copy(self) -> ndarray:
        """Returns the elements as a new array of one axis."""
        result: ndarray = wrapped(self.base._array.flat.copy())
        return result


def _lifted_property(given: property) -> property:
    getter: Any = given.fget
    return property(lambda self: wrapped(getter(self._array), (self,)), doc=getter.__doc__)


_install()
