"""Operators that repeat a plan: the results of later calls are the CPU's, whatever the operands hold by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "argmax": lambda x, y: (x.argmax(), x.argmax(1), y.argmin(0, keepdim=True)),
    "extremes and their indices": lambda x, y: (*x.max(1), *y.min(0)),
    "cat": lambda x, y: (torch.cat((x, y)), torch.cat((x, y[:, :2], x), 1), torch.cat((x, x)), torch.cat((x, y > 0))),
    "stack": lambda x, y: (torch.stack((x, y), 2), torch.stack((x, x))),
    "roll": lambda x, y: (x.roll(3, 1), y.roll((1, -2), (0, 1)), x.roll(5)),
    "topk": lambda x, y: (*x.topk(3), *y.topk(2, 0), *x.topk(2, largest=False)),
    "searchsorted": lambda x, y: (torch.searchsorted(x[0].sort()[0], y), torch.bucketize(y, x[1].sort()[0])),
    "max_pool2d": lambda x, y: (
        *F.max_pool2d(x[None], 2, return_indices=True),
        *F.max_pool2d(y[None, None], 3, 2, 1, return_indices=True),
    ),
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T.contiguous().T,
    "a part": lambda x: torch.cat((x, x))[3 : 3 + len(x)],
    "pending": lambda x: x * 2 + 1,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_have_the_results_of_the_cpu(name: str, layout: str) -> None:
    generator, call, laid = torch.Generator().manual_seed(1), CALLS[name], LAYOUTS[layout]
    kept = []
    for _ in range(4):
        x, y = (torch.randn(8, 8, generator=generator) for _ in range(2))
        kept.append((call(laid(x.to("vk")), laid(y.to("vk"))), call(laid(x), laid(y))))
        x, y = (torch.randn(8, 8, generator=generator).to("vk") for _ in range(2))
        x.add_(y)
    for results, expected in kept:  # after later calls, which may not have written to earlier results
        torch.testing.assert_close([result.cpu() for result in results], list(expected))


def test_results_of_a_repeated_call_can_be_written_to() -> None:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    joined = [torch.cat((x.to("vk"), y.to("vk"))) for _ in range(4)]
    joined[2][1] = 7
    joined[3].add_(1)
    expected = torch.cat((x, y))
    torch.testing.assert_close([joined[0].cpu(), joined[3].cpu()], [expected, expected + 1])
    assert joined[2][1].tolist() == [7] * 4
