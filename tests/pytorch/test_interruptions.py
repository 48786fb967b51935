"""Ctrl-C: the process goes on, the interrupt is raised, and parameters keep their elements."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch
from hang_limit import hang_limit_s

from vkcompute.runtime.scheduling.scheduler import Scheduler

TRAINING = """
import os, random, signal, threading, time
import torch
from torch import nn

random.seed(3)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to("vk")
optimizer = torch.optim.Adam(model.parameters(), 0.01)
x, y = torch.randn(64, 32, device="vk"), torch.randint(0, 8, (64,), device="vk")


def step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


step().item()
n = 0
for _ in range(40):
    timer = threading.Timer(0.002 + 0.02 * random.random(), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            step()
    except KeyboardInterrupt:
        n += 1
    timer.join()
    assert all(parameter.detach().cpu().isfinite().all() for parameter in model.parameters())
    assert step().item() < 5
assert n >= 38, n  # the others came while Python ran code that drops exceptions
print("trained")
"""

IN_THE_LOOKUP = """
import _thread, functools, itertools, operator, signal, time
import torch
from vkcompute.torch.device_guard import DeviceGuard

x = torch.ones(3, device="vk", requires_grad=True)
(x * 2).sum().item()
lookups = map(DeviceGuard.type_.fget, itertools.repeat(None))
signals = map(_thread.interrupt_main, itertools.repeat(signal.SIGINT))
try:
    DeviceGuard.type_ = property(functools.partial(next, map(operator.itemgetter(1), zip(signals, lookups))))
    y = x * 2
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""


def _run(program: str) -> Any:
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(300), check=False)


def test_interrupted_training_goes_on() -> None:
    done = _run(f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{TRAINING}")
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr


def test_a_signal_where_pytorch_looks_up_the_guards_method_is_raised_later() -> None:
    done = _run(f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{IN_THE_LOOKUP}")
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": False}], ids=str)
def test_parameters_of_an_interrupted_step_keep_their_elements(
    options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="vk"))
    optimizer = torch.optim.Adam([parameter], 0.5, **options)
    parameter.square().sum().backward()
    optimizer.step()
    before = parameter.tolist()
    with monkeypatch.context() as patched:
        add_task = Scheduler._add_task

        def interrupted(self: Any, *args: Any) -> None:
            add_task(self, *args)
            raise KeyboardInterrupt

        patched.setattr(Scheduler, "_add_task", interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    assert parameter.tolist() == before
    parameter.grad.square_()  # type: ignore[union-attr]
    optimizer.step()
    assert parameter.tolist() < before
