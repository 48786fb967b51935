"""Random numbers: `default_rng` and NumPy's Generator, with numbers that depend on the seed alone.

Philox 4x32-10 makes a block of numbers from its index in the stream and a key; see `distributions.py`. Each call takes
the blocks that it needs, so a generator holds a key and an index, and makes the same numbers on every device.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import locks
from vkcompute.arrays.algorithms import distributions
from vkcompute.arrays.algorithms.binding_limits import elements_within_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.contraction import grouped
from vkcompute.arrays.algorithms.gather import gather
from vkcompute.arrays.algorithms.lines import Lines, axis_of, contiguous, converted
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS, slices
from vkcompute.arrays.expressions.promotion import default_float, default_int, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, astype, written
from vkcompute.arrays.functions import creation
from vkcompute.arrays.functions.called_names import named_methods
from vkcompute.arrays.functions.draws import drawn_per_run
from vkcompute.arrays.functions.manipulation import moveaxis
from vkcompute.arrays.functions.random_parameters import (
    Size,
    gamma_shapes,
    on_host,
    probabilities,
    reals,
    require_in_range,
    require_not_negative,
    shape_for,
    shape_of,
    shown,
    words_of_range,
    words_of_ranges,
)
from vkcompute.arrays.functions.variates import Variates
from vkcompute.dtypes import as_dtype, finfo
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.results import new_result, temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.host_data import HostArray
from vkcompute.runtime.memory.layout import checked_shape
from vkcompute.runtime.runtime import Runtime, constant, runtime_of

_LOCAL, _MOST_KEPT = 128, 64
_MOST_BLOCKS = 1 << 22  # of a launch, so that a binding holds their numbers
_LEAST_COLUMNS = 16  # of rows that are taken by workgroups of as many columns


@cache
def _kernel(function: Callable[..., None]) -> PythonKernel:
    return kernel(function)


@lru_cache(256)
def _launch(function: Callable[..., None], n_groups: int) -> Callable[..., Any]:
    return _kernel(function)[n_groups, _LOCAL]


def default_rng(seed: Any = None, *, device: Any = None) -> Generator:
    """Returns a generator of random numbers.

    Args:
        seed: an int, several, or a `numpy.random.SeedSequence`, which make the same numbers each time; None for others
            each time. A generator is returned itself.
        device: a runtime; by default the default one.
    """
    if isinstance(seed, Generator):
        return seed
    return Generator(seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed), device)


def _restored(seed: np.random.SeedSequence, device: Any, n_taken: int) -> Generator:
    """Returns a generator that has taken `n_taken` blocks of numbers."""
    generator = Generator(seed, device)
    generator._position = n_taken
    return generator


@named_methods
class Generator(Variates):
    """Makes arrays of random numbers, by the methods of `numpy.random.Generator`.

    Numbers of one seed are the same on every device: bits for integers, uniform numbers and permutations; other
    distributions as far as the device rounds divisions and roots alike. A recorded graph repeats its numbers in each
    run; a call of a function by `vc.graph` takes new ones. The host reads parameters that are arrays, to check them,
    except means, which only shift.
    """

    def __init__(self, seed: np.random.SeedSequence, device: Any = None) -> None:
        self._seed, self._device, self._position = seed, device, 0
        self._stream, *self._key = seed.generate_state(3, np.uint32)
        self._lock = locks.make(locks.Rank.GENERATOR)

    def __deepcopy__(self, memo: object) -> Generator:
        return _restored(copy.deepcopy(self._seed), self._device, self._position)  # a runtime is not copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._seed, self._device, self._position)

    def __repr__(self) -> str:
        return f"<random generator of {self._seed.entropy}, {self._position} blocks taken>"

    def spawn(self, n_children: int) -> list[Generator]:
        """Returns generators of independent numbers."""
        return [Generator(sequence, self._device) for sequence in self._seed.spawn(n_children)]

    def _take(self, n_blocks: int) -> tuple[int, tuple[np.uint32, ...]]:
        """Takes blocks of numbers; returns the number of the first one, and the stream and the key."""
        with self._lock:
            start, self._position = self._position, self._position + n_blocks
            return start, (self._stream, *self._key)

    # -- filling arrays -----------------------------------------------------------------------------------------------

    def _runtime(self) -> Runtime:
        return creation.runtime_for(self._device)

    def _fill(
        self, function: Callable[..., None], out: Array, per_block: int, *per_element: Array, also: Any = ()
    ) -> Array:
        """Fills an array with one axis; `per_element` have an element per number."""
        n_blocks, arrays = -(-out._shape[0] // per_block), [out, *per_element]
        start, keys = self._take(n_blocks)
        tables = [array for array in also if type(array) is Array]
        most = min(_MOST_BLOCKS, max(elements_within_bindings(arrays, *tables) // per_block, 1))
        for first in range(0, n_blocks, most):
            blocks = min(n_blocks - first, most)
            part = slice(first * per_block, (first + blocks) * per_block)
            low, high = np.uint32((start + first) & 0xFFFFFFFF), np.uint32((start + first) >> 32)
            state = low, high, *keys
            target, *given = arrays if blocks == n_blocks else [array[part] for array in arrays]
            _launch(function, -(-blocks // _LOCAL))(target, *state, *given, *also)
        return out

    def _filled(self, names: str, size: Size, dtype: npt.DTypeLike | None, out: Array | None) -> Array:
        """Returns floats of a distribution without parameters: `fill_NAME`, or `fill_NAME_double`."""
        wanted = as_dtype(dtype) if dtype is not None else out.dtype if out is not None else default_float()
        if wanted not in (np.float32, np.float64):
            raise TypeError(f"random floats are float32 or float64; got {wanted}; convert with .astype()")
        if out is not None and (
            type(out) is not Array or out.dtype != wanted or size not in (None, out.shape, out.size)
        ):
            raise ValueError(f"out is a device array of {wanted} and of the size that is asked for; got {out!r}")
        runtime = self._runtime() if out is None else runtime_of(out)
        if wanted == np.float64:
            require_dtype(runtime, wanted, "random")
        shape = out.shape if out is not None else () if size is None else checked_shape(size)
        return written(self._floats(names, runtime, shape, wanted), out)

    @drawn_per_run
    def _floats(self, names: str, runtime: Runtime, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        double = dtype == np.float64
        result = new_result(runtime, shape, dtype)
        function = getattr(distributions, f"fill_{names}{'_double' if double else ''}")
        self._fill(function, _flat(result), 2 if double else 4)
        return result

    @drawn_per_run
    def _of_parameters(
        self, function: Callable[..., None], size: Size, dtype: npt.DTypeLike, parameters: list[HostArray]
    ) -> Array:
        """Returns numbers of a distribution whose parameters broadcast to the shape."""
        runtime = self._runtime()
        shape = shape_for(size, *[parameter.shape for parameter in parameters])
        result = new_result(runtime, shape, as_dtype(dtype))
        if (flat := _flat(result))._shape[0]:
            given = [
                grouped(constant(runtime, parameter).broadcast_to(shape), (len(shape),))
                if parameter.ndim
                else _repeated(runtime, parameter, flat._shape[0])
                for parameter in parameters
            ]
            self._fill(function, flat, 4 if function is distributions.fill_integers else 1, *given)
        return result

    # -- uniform and normal numbers -----------------------------------------------------------------------------------

    def random(self, size: Size = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
        """Returns uniform floats in [0, 1): multiples of 2**-24, or of 2**-53 for float64."""
        return self._filled("uniform", size, dtype, out)

    def standard_normal(self, size: Size = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
        """Returns normal floats of mean 0 and standard deviation 1, up to 6.7 from 0; up to 8.5 for float64."""
        return self._filled("normal", size, dtype, out)

    def standard_exponential(
        self, size: Size = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Returns exponential floats of mean 1."""
        return self._filled("exponential", size, dtype, out)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Array:
        """Returns uniform floats from `low` to `high`, numbers or arrays.

        Raises:
            OverflowError: an end is not finite, or the dtype of the numbers does not hold it.
            ValueError: `low` is above `high`.
        """
        first, last = (reals("uniform", end) for end in (low, high))
        dtypes = [end.dtype for end in (low, high) if type(end) is Array and end.dtype.kind == "f"]
        most = finfo(np.result_type(default_float(), *dtypes)).max
        with np.errstate(all="ignore"):
            span = last - first
        if not np.all(np.isfinite(span)) or max(np.abs(first).max(initial=0), np.abs(last).max(initial=0)) > most:
            given = f"{shown(low)} and {shown(high)}"
            raise OverflowError(
                f"uniform: the ends and their distance are finite, and the ends are at most {most:g}; got {given}; "
                'float64 has larger ones: vkcompute.numpy.set_default_dtype("float64")'
            )
        if np.any(np.signbit(span)):
            raise ValueError(f"uniform: low is at most high; got {shown(low)} and {shown(high)}")
        drawn = self.random(shape_for(size, first.shape, last.shape))
        if np.any(span > most):  # the distance overflows, and half of it does not
            return apply("multiply", self._scaled(drawn, last / 2 - first / 2, first / 2), 2.0)
        if type(low) is Array or type(high) is Array:
            return apply("add", apply("multiply", drawn, apply("subtract", high, low)), low)
        return self._scaled(drawn, span, first)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns normal floats of mean `loc` and standard deviation `scale`, numbers or arrays.

        Raises:
            ValueError: a scale is negative.
        """
        require_not_negative("scale", scale)
        shape = shape_for(size, shape_of(loc), shape_of(scale))
        return self._scaled(self._filled("normal", shape, None, None), scale, loc)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None) -> Array:
        """Returns floats whose logarithms are normal."""
        return apply("exp", self.normal(mean, sigma, size))

    def exponential(self, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns exponential floats of mean `scale`, a number or an array."""
        require_not_negative("scale", scale)
        return self._scaled(self.standard_exponential(shape_for(size, shape_of(scale))), scale)

    def _scaled(self, numbers: Array, scale: Any, shift: Any = 0) -> Array:
        """Returns numbers multiplied and shifted by numbers or arrays.

        Raises:
            OverflowError: the dtype of the numbers does not hold one of these.
        """
        if {type(scale), type(shift)} <= {int, float} and scale == 1 and shift == 0:
            return numbers
        for name, operand in (("multiply", scale), ("add", shift)):
            require_in_range(numbers.dtype, operand)
            if type(operand) is not Array and shape_of(operand):
                numbers = apply(name, numbers, runtime_of(numbers).array(np.asarray(operand, numbers.dtype)))
            elif type(operand) is Array or operand != (name == "multiply"):
                numbers = apply(name, numbers, operand if type(operand) is Array else float(operand))
        return numbers

    # -- integers -----------------------------------------------------------------------------------------------------

    @drawn_per_run
    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: npt.DTypeLike | None = None, endpoint: bool = False
    ) -> Array:
        """Returns integers from `low` to `high`, which is not among them unless `endpoint`; from 0 to `low` without it.

        Each is as probable as another: remainders that would be biased are drawn again.

        Args:
            dtype: of integers or bool; by default int64, or int32 where the device lacks it.

        Raises:
            ValueError: there is no integer in a range, or `dtype` does not hold it.
        """
        runtime = self._runtime()
        wanted = require_dtype(runtime, default_int(runtime) if dtype is None else dtype, "integers")
        if wanted.kind not in "biu":
            raise TypeError(f"integers are of an integer dtype, or bool; got {wanted}")
        first, last = (0, low) if high is None else (low, high)
        parameters = words_of_range if type(first) is type(last) is int else words_of_ranges
        starts, *given = parameters(first, last, endpoint, wanted)
        word = given[0].dtype
        function = distributions.fill_integers if word.itemsize == 4 else distributions.fill_long_integers
        drawn = self._of_parameters(function, size, word, given)
        converted = astype(drawn, wanted)
        if not starts.ndim and not starts:
            return converted
        return apply("add", converted, constant(runtime, starts) if starts.ndim else _repeated(runtime, starts))

    def poisson(self, lam: Any = 1.0, size: Size = None) -> Array:
        """Returns Poisson variates, in the default integer.

        Raises:
            ValueError: a mean is negative, NaN, or above 2**40.
        """
        runtime = self._runtime()
        integer, means = default_int(runtime), reals("poisson", lam)
        most = 2.0**40
        if not np.all((means >= 0) & (means <= most)):
            raise ValueError(f"poisson: means are 0 to {most:g}; got {shown(lam)}; larger ones are nearly normal")
        wholes = np.floor(means)
        given = [np.asarray(wholes.astype(integer)), np.asarray((means - wholes).astype(np.float32))]
        return self._of_parameters(distributions.fill_poisson, size, integer, given)

    def binomial(self, n: Any, p: Any, size: Size = None) -> Array:
        """Returns numbers of successes in `n` trials of probability `p`, in the default integer.

        Raises:
            ValueError: a number of trials is negative or above 2**40, or a probability is not in [0, 1].
        """
        runtime = self._runtime()
        integer, most = default_int(runtime), 2**40
        trials, p = np.broadcast_arrays(np.asarray(on_host(n)), reals("binomial", p))
        if trials.dtype.kind not in "biu":
            raise TypeError(f"binomial: numbers of trials are integers; got {trials.dtype}")
        if not np.all((trials >= 0) & (trials <= most) & (p >= 0) & (p <= 1)):
            raise ValueError(f"binomial: trials are 0 to {most}, and probabilities 0 to 1")
        rare = np.minimum(p, 1 - p)
        modes = np.floor((trials + 1) * rare)
        given = [trials.astype(integer), np.where(p > 0.5, -1, 1).astype(np.int32), modes.astype(integer)]
        given += [rare.astype(np.float32), np.asarray(modes - trials * rare).astype(np.float32)]
        return self._of_parameters(distributions.fill_binomial, size, integer, [np.array(array) for array in given])

    # -- gamma and beta -----------------------------------------------------------------------------------------------

    def standard_gamma(self, shape: Any, size: Size = None) -> Array:
        """Returns gamma variates of scale 1, in float32; 0 for a shape of 0.

        Raises:
            ValueError: a shape is negative, NaN or infinite.
        """
        return self._of_parameters(distributions.fill_gamma, size, np.float32, [gamma_shapes("gamma", shape)])

    def gamma(self, shape: Any, scale: Any = 1.0, size: Size = None) -> Array:
        """Returns gamma variates of mean `shape` times `scale`, in float32."""
        require_not_negative("scale", scale)
        return self._scaled(
            self.standard_gamma(shape, shape_for(size, shape_of(on_host(shape)), shape_of(scale))), scale
        )

    def chisquare(self, df: Any, size: Size = None) -> Array:
        """Returns sums of `df` squared normal numbers, in float32.

        Raises:
            ValueError: `df` is not positive, NaN or infinite.
        """
        gamma_shapes("chisquare", df, positive=True)
        return self._scaled(self.standard_gamma(reals("chisquare", df) / 2, size), 2.0)

    def beta(self, a: Any, b: Any, size: Size = None) -> Array:
        """Returns beta variates, in float32.

        Raises:
            ValueError: a parameter is not positive, NaN or infinite.
        """
        given = [gamma_shapes("beta", value, positive=True) for value in (a, b)]
        return self._of_parameters(distributions.fill_beta, size, np.float32, given)

    # -- choices ------------------------------------------------------------------------------------------------------

    def permutation(self, x: Any, axis: int = 0) -> Array:
        """Returns the integers below `x`, or the elements of an array along an axis, in random order."""
        if isinstance(x, (int, np.integer)):
            return self._random_order(int(x), int(x))
        x = creation.asarray(x, device=self._runtime()) if type(x) is not Array else x
        at = axis_of("permutation", x.ndim, axis)
        return moveaxis(_taken(x, self._random_order(x.shape[at], x.shape[at]), (x.shape[at],), at), 0, at)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Brings the elements of an array along an axis into random order."""
        if type(x) is not Array:
            raise TypeError(f"shuffle takes a device array, which it changes; got {type(x).__name__}")
        if x.size:
            x.copy_from(self.permutation(x, axis))

    @drawn_per_run
    def _random_order(self, n: int, n_taken: int) -> Array:
        """Returns the first integers of a random order of those below `n`."""
        if not 0 <= n < 2**31:
            raise ValueError(f"a random order has 0 to {2**31 - 1} elements; got {n}")
        runtime = self._runtime()
        flat = temporary(runtime, (n_taken,), np.dtype(np.int32))
        if n_taken:
            self._fill_order(flat, n)
        return astype(flat, default_int(runtime))

    def _fill_order(self, flat: Array, n: int) -> None:
        start, keys = self._take(n)
        state = np.uint32(start & 0xFFFFFFFF), np.uint32(start >> 32), *keys
        rounds = 24 + 6 * n.bit_length()
        for span in slices(flat.size, min(_MOST_BLOCKS, elements_within_bindings([flat]))):
            part = flat[span]
            groups = -(-part.size // _LOCAL)
            _kernel(distributions.fill_permutation)(part, *state, span.start, n, rounds, grid=groups, local_size=_LOCAL)

    def choice(
        self, a: Any, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Array:
        """Returns elements of an array along an axis, or integers below `a`, chosen at random.

        Args:
            replace: False to choose none of them twice.
            p: the probability of each; by default they are equal. The host reads them, and sorts where `replace` is
                False.
            shuffle: ignored: choices are always in random order.

        Raises:
            ValueError: there are fewer elements than to be chosen, or `p` are no probabilities.
        """
        whole = isinstance(a, (int, np.integer))
        source = a if whole or type(a) is Array else self._runtime().array(a)
        n = int(a) if whole else source.shape[axis_of("choice", source.ndim, axis)]
        shape = () if size is None else checked_shape(size)
        n_taken = math.prod(shape)
        if n_taken and (n < 1 or (n_taken > n and not replace)):
            raise ValueError(f"choice: {n_taken} of {n} elements; choose fewer, or with replace=True")
        if p is not None:
            indices = self._weighted(n, probabilities(p, n, n_taken, replace), n_taken, replace)
        else:
            indices = self.integers(0, max(n, 1), n_taken) if replace else self._random_order(n, n_taken)
        if whole:
            return indices.reshape(shape)
        at = axis_of("choice", source.ndim, axis)
        elements = _taken(source, indices, shape, at)
        order = [*range(len(shape), len(shape) + at), *range(len(shape)), *range(len(shape) + at, elements.ndim)]
        return elements.transpose(tuple(order))

    @drawn_per_run
    def _weighted(self, n: int, p: HostArray, n_taken: int, replace: bool) -> Array:
        """Returns indices that are chosen by probabilities."""
        runtime = self._runtime()
        if replace:
            sums = np.minimum(np.rint(np.cumsum(p)[:-1] * 2.0**32), 2.0**32 - 1).astype(np.uint32)
            table = constant(runtime, sums if n > 1 else np.array([2**32 - 1], np.uint32))
            flat = temporary(runtime, (n_taken,), np.dtype(np.int32))
            self._fill(distributions.fill_choice, flat, 4, also=(table, int(np.flatnonzero(p)[-1])))
            return astype(flat, default_int(runtime))
        # P. Efraimidis, P. Spirakis: Weighted random sampling with a reservoir. 2006.
        with np.errstate(divide="ignore"):
            waits = self.standard_exponential(n, np.float32).numpy().astype(np.float64) / p
        return constant(runtime, np.argsort(waits)[:n_taken].astype(default_int(runtime)))


def _flat(array: Array) -> Array:
    """Returns the elements of a new array along one axis."""
    size, dtype = math.prod(array._shape), array._dtype
    return Array.whole(array.runtime, array._buffer or array.buffer, (size,), dtype, size * dtype.itemsize)


def _repeated(runtime: Runtime, parameter: HostArray, n: int | None = None) -> Array:
    """Returns a number on the device, or a view that repeats it `n` times; they are kept for later calls to read."""
    if runtime.scheduler.recordings:
        array = constant(runtime, parameter)
        return array if n is None else array.viewed(0, (n,), (0,))
    kept = cached(runtime, _repeated, _Kept, release=_Kept.clear)
    key = parameter.dtype, parameter.tobytes(), n
    known = kept.get(key)
    if known is None:
        array = runtime.array(parameter)
        known = kept[key] = array if n is None else array.viewed(0, (n,), (0,))
    return known


class _Kept(BoundedCache[Any, Array]):
    """Parameters of distributions on a device."""

    def __init__(self) -> None:
        super().__init__(_MOST_KEPT)


def _taken(x: Array, indices: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Returns the elements at indices along an axis, which is replaced by first axes of this shape."""
    front = moveaxis(x, axis, 0)
    out = temporary(x.runtime, (indices.size, math.prod(front.shape[1:])), x.dtype)
    if out.size and (out.shape[1] < _LEAST_COLUMNS or exceeds_bindings(front, indices, out)):
        lines = Lines(1, front.shape[0], out.shape[1])
        gather(contiguous(front), converted(indices, np.int32), lines, out)
        return out.reshape((*shape, *front.shape[1:]))
    rows = grouped(front, (1, front.ndim - 1)) if out.size else front
    for i in slices(out.shape[0] if out.size else 0, 8 * MOST_GROUPS):
        for j in slices(out.shape[1], _LEAST_COLUMNS * MOST_GROUPS):
            part = out[i, j]
            grid = -(-part.shape[1] // _LEAST_COLUMNS), -(-part.shape[0] // 8)
            _kernel(distributions.gather)(part, rows[:, j], indices[i], grid=grid, local_size=(_LEAST_COLUMNS, 8))
    return out.reshape((*shape, *front.shape[1:]))
