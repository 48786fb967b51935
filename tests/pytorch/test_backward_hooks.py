"""Exceptions in hooks of backward, on the device and in threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import torch


def _fail(*_: Any) -> Any:
    raise LookupError("no gradient")


def test_exceptions_in_hooks_of_backward_are_raised() -> None:
    def hooked(kind: str) -> None:
        x = torch.ones(3, device="vk", requires_grad=True)
        y = x * 2
        if kind == "tensor":
            y.register_hook(_fail)
        elif kind == "accumulated":
            x.register_post_accumulate_grad_hook(_fail)
        elif kind == "before":
            cast(Any, y.grad_fn).register_prehook(_fail)
        else:
            cast(Any, y.grad_fn).register_hook(_fail)
        y.sum().backward()

    for kind in ("tensor", "accumulated", "before", "after"):
        with pytest.raises(LookupError, match="no gradient"):
            hooked(kind)


def test_exceptions_in_hooks_are_raised_in_the_thread_that_called_backward() -> None:
    def failing(number: int) -> list[str]:
        raised = []
        for n in range(10):

            def fail(_: Any, name: str = f"{number} {n}") -> Any:
                raise LookupError(name)

            x = torch.ones(3, device="vk", requires_grad=True)
            y = x * 2
            y.register_hook(fail)
            try:
                y.sum().backward()
            except Exception as error:
                raised.append(str(error))
        return raised

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(failing, range(2)))
    assert results == [[f"{number} {n}" for n in range(10)] for number in range(2)]


def test_a_hook_may_catch_the_exception_of_a_hook_of_its_own_backward() -> None:
    def inner(gradient: Any) -> Any:
        z = gradient.detach().requires_grad_()
        with torch.enable_grad():
            w = z * 2
            w.register_hook(_fail)
            with pytest.raises(LookupError, match="no gradient"):
                w.sum().backward()
        raise IndexError("outer")

    for _ in range(3):  # PyTorch 2.10 took references that it did not own
        x = torch.ones(3, device="vk", requires_grad=True)
        y = x * 2
        y.register_hook(inner)
        with pytest.raises(IndexError, match="outer"):
            y.sum().backward()


def test_training_goes_on_after_an_exception_in_a_hook() -> None:
    x = torch.ones(3, device="vk", requires_grad=True)
    x.square().sum().backward()
    assert cast(Any, x.grad).tolist() == [2.0, 2.0, 2.0]
