"""Steps of optimizers: each program steps a block of the elements of one parameter.

A gradient may be scaled, and a step skipped after an overflow. What changes from step to step is an array of numbers,
in the dtype in which elements are computed.
"""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.language.elementwise import real_function
from vkcompute.blocks.launching.program import block_program
from vkcompute.operations import FUNCTIONS

_expm1 = real_function("expm1", FUNCTIONS["expm1"], is_method=False)


@block_program
def _own_elements(n, overflow_ptr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr):
    """Returns the indices of a program's elements, and a mask: True for those of the tensor, if nothing overflowed."""
    n = tl.multiple_of(n, 4 if ALIGNED else 1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    if overflow_ptr is not None:
        inside = inside & (tl.load(overflow_ptr) == 0)
    return at, inside


@block_program
def _gradient(grad_ptr, scale_ptr, at, inside, sign, KIND: tl.constexpr):
    """Returns elements of the gradient; those that were scaled are written back, as PyTorch does."""
    value = tl.load(grad_ptr + at, inside).to(KIND)
    if scale_ptr is not None:
        value = value / tl.load(scale_ptr).to(KIND)
        tl.store(grad_ptr + at, value, inside)
    return value * sign


@block_program
def adam(
    scale_ptr, overflow_ptr, numbers_ptr, n, x_ptr, grad_ptr, mean_ptr, square_ptr, largest_ptr, step_ptr,
    sign, decay, share1, beta2, share2, eps, BLOCK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Performs a step of Adam; the numbers are the rate, the share of x that is kept, and the weights of both moments.

    Args:
        step_ptr: the number of steps, for which the weights are logarithms of the factors of the moments, or None.
        share1, share2: the shares of the gradient and of its square in the moments.
    """
    kind: tl.constexpr = numbers_ptr.dtype.element_ty
    at, inside = _own_elements(n, overflow_ptr, BLOCK, ALIGNED)
    before = tl.load(x_ptr + at, inside).to(kind)
    slope = _gradient(grad_ptr, scale_ptr, at, inside, sign, kind) + decay * before
    mean = tl.load(mean_ptr + at, inside).to(kind)
    first = mean + (slope - mean) * share1
    second = tl.load(square_ptr + at, inside).to(kind) * beta2 + slope * slope * share2
    tl.store(mean_ptr + at, first, inside)
    tl.store(square_ptr + at, second, inside)
    if largest_ptr is not None:
        second = tl.maximum(second, tl.load(largest_ptr + at, inside).to(kind), tl.PropagateNan.ALL)
        tl.store(largest_ptr + at, second, inside)
    rate, kept = tl.load(numbers_ptr), tl.load(numbers_ptr + 1)
    weight1, weight2 = tl.load(numbers_ptr + 2), tl.load(numbers_ptr + 3)
    if step_ptr is not None:
        n_steps = tl.load(step_ptr).to(kind)
        weight1, weight2 = -_expm1(n_steps * weight1), -_expm1(n_steps * weight2)
    moved = before * kept - rate / weight1 * first / (tl.sqrt(second / weight2) + eps)
    tl.store(x_ptr + at, moved, inside)


@block_program
def descent(
    scale_ptr, overflow_ptr, numbers_ptr, n, x_ptr, grad_ptr, buffer_ptr, sign, decay, momentum, share,
    NESTEROV: tl.constexpr, IS_FIRST: tl.constexpr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Performs a step of gradient descent; the number is the rate."""
    kind: tl.constexpr = numbers_ptr.dtype.element_ty
    at, inside = _own_elements(n, overflow_ptr, BLOCK, ALIGNED)
    before = tl.load(x_ptr + at, inside).to(kind)
    slope = _gradient(grad_ptr, scale_ptr, at, inside, sign, kind) + decay * before
    if buffer_ptr is not None:
        kept = slope
        if not IS_FIRST:
            kept = tl.load(buffer_ptr + at, inside).to(kind) * momentum + slope * share
        tl.store(buffer_ptr + at, kept, inside)
        slope = slope + kept * momentum if NESTEROV else kept
    tl.store(x_ptr + at, before - tl.load(numbers_ptr) * slope, inside)


@block_program
def adagrad(
    scale_ptr, overflow_ptr, numbers_ptr, n, x_ptr, grad_ptr, total_ptr, step_ptr, sign, rate_decay, decay, eps,
    BLOCK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Performs a step of Adagrad; the numbers are the rate and that of steps, which `step_ptr` may give instead."""
    kind: tl.constexpr = numbers_ptr.dtype.element_ty
    rate, n_steps = tl.load(numbers_ptr), tl.load(numbers_ptr + 1)
    if step_ptr is not None:
        n_steps = tl.load(step_ptr).to(kind)
    at, inside = _own_elements(n, overflow_ptr, BLOCK, ALIGNED)
    before = tl.load(x_ptr + at, inside).to(kind)
    slope = _gradient(grad_ptr, scale_ptr, at, inside, sign, kind) + decay * before
    squares = tl.load(total_ptr + at, inside).to(kind) + slope * slope
    tl.store(total_ptr + at, squares, inside)
    moved = before - rate / (1 + (n_steps - 1) * rate_decay) * slope / (tl.sqrt(squares) + eps)
    tl.store(x_ptr + at, moved, inside)
