"""Connectionist temporal classification: A. Graves et al., Connectionist temporal classification, 2006."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import group_id, local_id
from vkcompute.jit.library.workgroup import barrier
from vkcompute.torch.element_types import wide
from vkcompute.torch.errors import NotComputedError
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import runtime, wrap

_LANES = 64
_MOST_ELEMENTS = 2**31 - 1


def _log_sum(a: Any, b: Any, c: Any) -> Any:
    most = max(a, max(b, c))
    scale = most if most > -math.inf else 0
    return scale + math.log(math.exp(a - scale) + math.exp(b - scale) + math.exp(c - scale))


@device_kernel
def _forward(p: Any, skips: Any, lengths: Any, out: Any, n_steps: int, width: int, impossible: float) -> None:
    """Sums the probabilities of the first positions, equations 6 and 7: a workgroup per sample."""
    sample = group_id(0)
    first = sample * n_steps * width
    for s in range(local_id(0), width, _LANES):
        out[first + s] = p[first + s] if s < min(2, lengths[sample]) else impossible
    barrier()
    for t in range(1, n_steps):
        at = first + t * width
        for s in range(local_id(0), width, _LANES):
            one = out[at - width + s - 1] if s > 0 else impossible
            two = out[at - width + s - 2] if skips[sample * width + s] != 0 else impossible
            out[at + s] = _log_sum(out[at - width + s], one, two) + p[at + s]
        barrier()


@device_kernel
def _backward(
    p: Any, skips: Any, lengths: Any, n_inputs: Any, out: Any, n_steps: int, width: int, impossible: float
) -> None:
    """Sums the probabilities of the last positions, equations 9 and 10: a workgroup per sample."""
    sample = group_id(0)
    last = n_inputs[sample] - 1
    for k in range(n_steps):
        t = n_steps - 1 - k
        at = (sample * n_steps + t) * width
        for s in range(local_id(0), width, _LANES):
            value = impossible + 0 * p[at + s]
            if t == last and s < lengths[sample] and s >= lengths[sample] - 2:
                value = p[at + s]
            if t < last:
                one = out[at + width + s + 1] if s + 1 < width else impossible
                two = impossible
                if s + 2 < width and skips[sample * width + s + 2] != 0:
                    two = out[at + width + s + 2]
                value = _log_sum(out[at + width + s], one, two) + p[at + s]
            out[at + s] = value
        barrier()


class _Problem(NamedTuple):
    """The samples of a call.

    Attributes:
        labels: of each sample, with a blank before and after each, (samples, positions).
        p: the logarithms of their probabilities, (samples, steps, positions).
        skips: 1 where the position before may be left out.
        lengths, n_inputs: the positions and the steps of each sample.
    """

    labels: Any
    p: Any
    skips: Any
    lengths: Any
    n_inputs: Any


def _problem(log_probs: Any, targets: Any, n_inputs: Sequence[int], n_targets: Sequence[int], blank: int) -> _Problem:
    n_steps, n_samples, n_labels = log_probs.shape
    for name, values, most in (("input_lengths", n_inputs, n_steps), ("target_lengths", n_targets, math.inf)):
        if len(values) != n_samples:
            raise RuntimeError(f"{name} must be of size batch_size")
        for value in values:
            if not 0 <= value <= most:
                raise RuntimeError(f"Expected {name} to have value from 0 to {most}, but got value {value}")
    if not 0 <= blank < n_labels:
        raise RuntimeError("blank must be in label range")
    longest = max(n_targets, default=0)
    lengths = torch.tensor(n_targets, dtype=torch.int64, device="cpu")
    at = torch.arange(longest, device="cpu").expand(n_samples, longest)
    if targets.dim() == 1:
        at = at + (lengths.cumsum(0) - lengths).unsqueeze(1)
    is_target = (torch.arange(longest, device="cpu") < lengths.unsqueeze(1)).to(DEVICE_NAME)
    targets, at = targets.to(DEVICE_NAME, torch.int64), torch.where(is_target.cpu(), at, 0).to(DEVICE_NAME)
    given = (targets[at] if targets.dim() == 1 else targets.gather(1, at)) if longest else at
    labels = torch.full((n_samples, 2 * longest + 1), blank, dtype=torch.int64, device=DEVICE_NAME)
    labels[:, 1::2] = torch.where(is_target, given, blank)
    skips = torch.zeros(labels.shape, dtype=torch.int32, device=DEVICE_NAME)
    skips[:, 2:] = (labels[:, 2:] != labels[:, :-2]) & (labels[:, 2:] != blank)
    if n_samples * n_steps * labels.shape[1] > _MOST_ELEMENTS:
        raise NotComputedError("ctc_loss takes at most 2**31 - 1 samples times steps times positions")
    p = log_probs.transpose(0, 1).gather(2, labels.unsqueeze(1).expand(-1, n_steps, -1))
    inputs = torch.tensor(n_inputs, dtype=torch.int32, device="cpu").to(DEVICE_NAME)
    return _Problem(labels, p, skips, (2 * lengths + 1).to(torch.int32).to(DEVICE_NAME), inputs)


def _sums(chosen: Any, problem: _Problem, *numbers: Any) -> Any:
    """Returns the sums of one of the kernels, (samples, steps, positions)."""
    n_samples, n_steps, width = problem.p.shape
    if not problem.p.numel():
        return torch.empty_like(problem.p)
    arrays = [operand(x.contiguous()).copy().reshape(-1) for x in (problem.p, problem.skips, problem.lengths, *numbers)]
    out = runtime().empty(arrays[0].shape, wide(problem.p.dtype))
    chosen[n_samples, _LANES](*arrays, out, n_steps, width, -math.inf)
    return wrap(out.reshape((n_samples, n_steps, width)))


def _numbers(values: Any) -> list[int]:
    return values.tolist() if isinstance(values, torch.Tensor) else list(values)


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> tuple[Any, Any]:
    """Returns the negative logarithms of the probabilities of the targets, and the sums of `_forward`."""
    n_inputs, n_targets = _numbers(input_lengths), _numbers(target_lengths)
    problem = _problem(log_probs, targets, n_inputs, n_targets, blank)
    sums = _sums(_forward, problem)
    if not sums.shape[1]:
        ends = torch.full((len(n_inputs), 1), -math.inf, dtype=log_probs.dtype, device=DEVICE_NAME)
        return torch.where(problem.lengths == 1, 0.0, -ends[:, 0]), sums
    steps = (problem.n_inputs - 1).clamp_min(0).to(torch.int64)
    ends = sums.gather(1, steps.view(-1, 1, 1).expand(-1, 1, sums.shape[2])).squeeze(1)
    last = problem.lengths.to(torch.int64).unsqueeze(1) - 1
    one, other = ends.gather(1, last).squeeze(1), ends.gather(1, (last - 1).clamp_min(0)).squeeze(1)
    loss = -torch.logaddexp(one, torch.where(problem.lengths > 1, other, -math.inf))
    nothing = torch.where(problem.lengths == 1, 0.0, math.inf).to(loss.dtype)
    return torch.where(problem.n_inputs > 0, loss, nothing), sums


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def ctc_loss_backward(
    grad: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, neg_log_likelihood: Any,
    log_alpha: Any, blank: int, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Returns the gradient by the logarithms, equation 16 of the paper by the probabilities of labels at steps."""
    n_inputs, n_targets = _numbers(input_lengths), _numbers(target_lengths)
    problem = _problem(log_probs, targets, n_inputs, n_targets, blank)
    loss = neg_log_likelihood.view(-1, 1, 1)
    both = log_alpha + _sums(_backward, problem, problem.n_inputs)
    shares = torch.where(both == -math.inf, 0.0, torch.exp(both - problem.p + loss))
    by_step = log_probs.transpose(0, 1)
    labels = problem.labels.unsqueeze(1).expand(both.shape)
    of_labels = torch.zeros(by_step.shape, dtype=by_step.dtype, device=DEVICE_NAME).scatter_add(2, labels, shares)
    result = (torch.exp(by_step) - of_labels) * grad.view(-1, 1, 1)
    result = torch.where(loss == math.inf, 0.0 if zero_infinity else math.nan, result)
    steps = torch.arange(by_step.shape[1], device=DEVICE_NAME).view(1, -1, 1)
    return torch.where(steps < problem.n_inputs.view(-1, 1, 1), result, 0.0).transpose(0, 1)
