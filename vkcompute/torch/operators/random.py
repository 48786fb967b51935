"""Random numbers: Philox, whose key is drawn from PyTorch's generator of the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.functions.draws import drawn_per_run
from vkcompute.arrays.functions.random import Generator, default_rng
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.torch import checks
from vkcompute.torch.element_types import computed
from vkcompute.torch.generator import host_generator
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import name_of, operand, require_floats
from vkcompute.torch.storage import resize_to, runtime, store, wrap


def next_generator(generator: Any = None) -> Generator:
    """Returns arrays' generator for one operator, whose key is drawn from a generator of PyTorch."""
    drawn = torch.randint(0, 2**62, (2,), generator=host_generator(generator), device="cpu")
    return default_rng(np.random.SeedSequence([int(value) for value in drawn]), device=runtime())


class _Draw:
    """The numbers of one operator. In the recording of a function, each run draws a key for them."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def _runtime(self) -> Runtime:
        return runtime()

    @drawn_per_run
    def __call__(self, method: str, *args: Any) -> Array:
        """Returns the numbers of a method of arrays' generator."""
        numbers: Array = getattr(next_generator(self._generator), method)(*args)
        return numbers


def _dtype(tensor: Any) -> np.dtype[Any]:
    """Returns the dtype in which random floats of a tensor are made."""
    return np.dtype("float64") if tensor.dtype in (torch.float64, torch.complex128) else np.dtype("float32")


def _uniform(tensor: Any, generator: Any) -> Array:
    """Returns numbers of [0, 1), of a tensor's shape."""
    return _Draw(generator)("random", tuple(tensor.shape), _dtype(tensor))


def _normal(tensor: Any, generator: Any) -> Array:
    return _Draw(generator)("standard_normal", tuple(tensor.shape), _dtype(tensor))


@kernel("uniform_")
def uniform(self: Any, from_: float = 0, to: float = 1, *, generator: Any = None) -> Any:
    """Fills with numbers of [from, to)."""
    if not from_ <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
    if not self.numel():
        return self
    numbers = _uniform(self, generator)
    if self.dtype in (torch.float16, torch.bfloat16):  # else the largest ones would be rounded to 1
        steps = 1 / torch.finfo(self.dtype).eps * 2
        numbers = apply("multiply", apply("floor", apply("multiply", numbers, steps)), 1 / steps)
    if (from_, to) != (0, 1):
        numbers = apply("add", apply("multiply", numbers, float(to - from_)), float(from_))
    return store(self, numbers)


@kernel("normal_")
def normal(self: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    """Fills with normally distributed numbers."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not self.numel():
        return self
    if self.dtype.is_complex:
        parts = torch.view_as_real(self)
        normal(parts, 0, std / 2**0.5, generator=generator)
        return self.add_(mean) if mean else self
    numbers = _normal(self, generator)
    if (mean, std) != (0, 1):
        numbers = apply("add", apply("multiply", numbers, float(std)), float(mean))
    return store(self, numbers)


def _of_uniform(self: Any, generator: Any, function: Callable[[Array], Array]) -> Any:
    return store(self, function(_uniform(self, generator))) if self.numel() else self


@kernel("exponential_")
def exponential(self: Any, lambd: float = 1, *, generator: Any = None) -> Any:
    """Fills with exponentially distributed numbers."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    rate = -1 / float(lambd)
    return _of_uniform(self, generator, lambda u: apply("multiply", apply("log1p", apply("negative", u)), rate))


@kernel("log_normal_")
def log_normal(self: Any, mean: float = 1, std: float = 2, *, generator: Any = None) -> Any:
    """Fills with numbers whose logarithms are normally distributed."""
    require_floats("log_normal", self)
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not self.numel():
        return self
    scaled = apply("multiply", _normal(self, generator), float(std))
    return store(self, apply("exp", apply("add", scaled, float(mean))))


@kernel("cauchy_")
def cauchy(self: Any, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Any:
    """Fills with numbers of Cauchy's distribution."""
    if not self.is_floating_point():
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {name_of(self.dtype)}"
        )
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")

    def numbers(u: Array) -> Array:
        tangents = apply("tan", apply("multiply", apply("subtract", u, 0.5), math.pi))
        return apply("add", apply("multiply", tangents, float(sigma)), float(median))

    return _of_uniform(self, generator, numbers)


@kernel("geometric_")
def geometric(self: Any, p: float, *, generator: Any = None) -> Any:
    """Fills with the numbers of trials up to the first success."""
    if self.dtype == torch.bool or self.is_complex():
        require_floats("geometric", self)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    scale = 1 / math.log1p(-p)

    def numbers(u: Array) -> Array:
        failures = apply("floor", apply("multiply", apply("log1p", apply("negative", u)), scale))
        return apply("add", failures, 1)

    return _of_uniform(self, generator, numbers)


@kernel("bernoulli_.float")
def bernoulli(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    """Fills with ones of a probability, and zeros."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _of_uniform(self, generator, lambda u: apply("less", u, float(p)))


@kernel("bernoulli_.Tensor")
def bernoulli_of(self: Any, p: Any, *, generator: Any = None) -> Any:
    """Fills with ones of probabilities, and zeros."""
    checked = checks.probabilities(operand(p.to(DEVICE_NAME)))
    return _of_uniform(self, generator, lambda u: apply("less", u, checked))


@kernel("bernoulli.out")
def bernoulli_into(self: Any, *, generator: Any = None, out: Any) -> Any:
    """Computes ones of probabilities, and zeros."""
    out.resize_(self.shape)  # PyTorch gives no warning here
    return bernoulli_of(out, self, generator=generator)


@kernel("bernoulli")
def bernoulli_new(self: Any, *, generator: Any = None) -> Any:
    """Returns ones of probabilities, and zeros."""
    made = torch.empty_like(self, memory_format=torch.contiguous_format)
    return bernoulli_of(made, self, generator=generator)


@kernel("random_.from")
def random_from(self: Any, from_: int, to: int | None, *, generator: Any = None) -> Any:
    """Fills with integers from a range."""
    if not self.numel():
        return self
    stop = _end(self.dtype) if to is None else to
    if self.is_floating_point():
        end = int(torch.finfo(self.dtype).max) + 1
        least = 1 - end
    else:
        end, least = _end(self.dtype), 0 if self.dtype == torch.bool else torch.iinfo(self.dtype).min
    if from_ < least or stop > end:
        what = "from" if from_ < least else "to - 1"
        raise RuntimeError(f"{what} is out of bounds for {name_of(self.dtype)}: {from_} to {stop}")
    numbers = _Draw(generator)("integers", from_, stop, tuple(self.shape), np.int64)
    return store(self, numbers)


@kernel("random_.to")
def random_to(self: Any, to: int, *, generator: Any = None) -> Any:
    """Fills with integers from 0 to a limit, without it."""
    return random_from(self, 0, to, generator=generator)


@kernel("random_")
def random(self: Any, *, generator: Any = None) -> Any:
    """Fills with integers that the dtype holds exactly."""
    return random_from(self, 0, None, generator=generator)


def _end(dtype: Any) -> int:
    """Returns the end of the range of integers that a dtype holds exactly, at most 2**63 - 1."""
    if dtype.is_floating_point:
        return int(2 ** (1 - int(np.log2(torch.finfo(dtype).eps))))
    return min((1 if dtype == torch.bool else torch.iinfo(dtype).max) + 1, 2**63 - 1)


@kernel("randperm.generator_out")
def randperm(n: int, *, generator: Any = None, out: Any) -> Any:
    """Computes a random order of the integers below n."""
    resize_to(out, (n,))
    return store(out, _Draw(generator)("permutation", n)) if n else out


@kernel("native_dropout")
def dropout(input: Any, p: float, train: bool | None) -> Any:
    """Returns elements of which a share is 0, the others scaled, and the mask of the others."""
    if train is False or not input.numel() or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    drawn = apply("greater_equal", _uniform(input, None), float(p))
    mask = store(torch.empty_like(input, dtype=torch.bool), drawn)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    kept = where(operand(mask), operand(input), 0)
    return store(torch.empty_like(input), apply("multiply", kept, float(scale))), mask


@kernel("native_dropout_backward")
def dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    """Returns the gradient of dropout; of integers, in the default dtype, as on the CPU."""
    dtype = torch.result_type(grad_output, float(scale))
    kept = where(operand(mask), operand(grad_output, computed(dtype)), 0)
    return store(torch.empty_like(grad_output, dtype=dtype), apply("multiply", kept, float(scale)))


def _require_sampled(weights: Any, n: int, replacement: bool) -> None:
    """Raises RuntimeError unless `n` indices can be drawn from rows of weights."""
    if not 1 <= weights.dim() <= 2 or not weights.shape[-1]:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not weights.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    if n <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if n > weights.shape[-1] and not replacement:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.shape[-1] > 2**24:
        raise RuntimeError("number of categories cannot exceed 2^24")


@kernel("multinomial")
def multinomial(self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Returns indices drawn with probabilities: those with the largest ratios to exponential numbers, or by sums."""
    _require_sampled(self, num_samples, replacement)
    weights = wrap(checks.weights(operand(self.to(torch.float32))))
    if not replacement or num_samples == 1:
        rates = torch.empty_like(weights)
        exponential(rates, 1.0, generator=generator)
        ratios, drawn = torch.topk(weights / rates.clamp_min(1e-38), num_samples, -1)
        return wrap(checks.drawn_rows(operand(drawn), operand(ratios[..., :1])))
    sums = torch.cumsum(weights, -1)
    fractions = torch.empty((*self.shape[:-1], num_samples), device=DEVICE_NAME)
    uniform(fractions, generator=generator)
    position = fractions * sums[..., -1:]
    drawn = torch.sum(position.unsqueeze(-1) >= sums.unsqueeze(-2), -1).clamp_max(self.shape[-1] - 1)
    return wrap(checks.drawn_rows(operand(drawn), operand(sums[..., -1:])))


@kernel("rrelu_with_noise")
def rrelu(
    self: Any, noise: Any, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """Returns elements, negative ones times a random slope in training, else times the mean slope."""
    if not training:
        return torch.nn.functional.leaky_relu(self, (lower + upper) / 2).contiguous()
    slopes = uniform(torch.empty_like(self), lower, upper, generator=generator)
    noise.copy_(torch.where(self <= 0, slopes, 1.0))
    return (self * noise).contiguous()
