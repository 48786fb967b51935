"""Shared fixtures: the runtime under test, and guards against validation messages and leaked handles.

`scripts/run_tests.py` picks the driver and switches validation on through the environment; run by hand, pytest uses
whatever device `vkcompute.Runtime()` picks. Nothing here loads a driver before a test does: `pure` tests need none.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import checked_locks
import pytest
import validator
from chosen_tests import ChosenTests
from hang_limit import hang_limit_s
from hypothesis import HealthCheck, settings
from passed_tests import VARIABLE, PassedTests

if TYPE_CHECKING:
    import vkcompute

# A GPU's first launch compiles a pipeline, so time per example says nothing: no deadline. The normal run takes the same
# examples each time, so that it judges a change and not its luck; what nobody has seen is for "deep", `make fuzz`.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=12)
settings.register_profile(
    "deep", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

checked_locks.install()  # before modules with locks of their own are imported

_cache = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the session a disk cache of its own (tests neither read nor write the user's), and signals that arrive."""
    config.pluginmanager.register(ChosenTests(os.environ))
    if VARIABLE in os.environ:
        config.pluginmanager.register(PassedTests(Path(os.environ.pop(VARIABLE))))
    folder = tempfile.TemporaryDirectory(prefix="vkcompute-tests-")
    config.stash[_cache] = folder
    os.environ["VKCOMPUTE_CACHE_DIR"] = folder.name
    os.environ["VKCOMPUTE_ANNOUNCE_AFTER_S"] = "86400"  # how long a kernel compiles is the machine's affair
    # A shell starts background jobs with SIGINT ignored, and nohup with SIGHUP: so would programs ignore them to which
    # tests send them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    config.stash[_cache].cleanup()


def _messages() -> list[str]:
    """Validation messages since the last call; none if no test has loaded the driver yet."""
    validation = sys.modules.get("vkcompute.core.validation")
    return validation.validation_messages() if validation else []


def _fail_on_messages(when: str) -> None:
    messages = _messages()
    if messages:
        pytest.fail(f"the validation layer said {when}:\n" + "\n".join(messages), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def _silence_at_the_end() -> Iterator[None]:
    """Fail the last test for what is said while the session's fixtures close and what is left over is finalized."""
    yield
    gc.unfreeze()
    gc.collect()
    _fail_on_messages("at the end of the session")


@pytest.fixture(scope="session", autouse=True)
def _valid_modules(_silence_at_the_end: None) -> Iterator[None]:
    """Fail the last test for a kernel that spirv-val rejects, of jit's tests or left in the cache by programs."""
    with pytest.MonkeyPatch.context() as patch:
        validator.watch_devices(patch)
        yield
    entries = Path(os.environ["VKCOMPUTE_CACHE_DIR"]).glob("vkcompute/python/*")
    for entry in filter(None, map(_cached, entries)):
        validator.expect(entry.partition(b"\n")[2])
    if objections := validator.objections():
        pytest.fail("\n".join(objections), pytrace=False)


def _cached(entry: Path) -> bytes | None:
    """A kernel in the cache, unless a test damaged it."""
    from vkcompute import disk

    return disk.read_cached(entry)


@pytest.fixture(scope="module", autouse=True)
def _settled_heap() -> None:
    """Spare a module's collections what was alive before it: tests ask for thousands, and old heaps are large."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _silence(_silence_at_the_end: None) -> Iterator[None]:
    """Fail a test in which the validation layer says anything, also in a finalizer or on another thread."""
    _fail_on_messages("before this test, after the one before it")
    yield
    _fail_on_messages("in this test")
    if checked_locks.violations:
        pytest.fail(f"locks were taken out of order: {checked_locks.violations.pop()}", pytrace=False)


@pytest.fixture
def validation_said() -> Callable[[], list[str]]:
    """For a test that provokes a message: the messages since the last call, which then no longer fail the test."""
    return _messages


@pytest.fixture(scope="session")
def gpu(_silence_at_the_end: None) -> Iterator[vkcompute.Runtime]:
    """The runtime that tests share, on the driver under test. Tests of lifetimes open one of their own."""
    import vkcompute

    # By closing(), as `with vkcompute.Runtime()` would be where all tests of the session make their arrays.
    with contextlib.closing(vkcompute.Runtime()) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def unlimited(_silence_at_the_end: None) -> Iterator[vkcompute.Runtime]:
    """A runtime whose submits have no time limit: each launch is one task, also the first one of a kernel on a GPU."""
    import vkcompute

    with contextlib.closing(vkcompute.Runtime(submit_limit_s=None)) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def like_a_gpu(_silence_at_the_end: None) -> Iterator[vkcompute.Runtime]:
    """A runtime on the same driver whose block programs are those of a GPU."""
    import vkcompute
    from vkcompute.runtime.memory.context import cached
    from vkcompute.tile.device import block_target, matrices_of
    from vkcompute.tile.target import Target

    with contextlib.closing(vkcompute.Runtime()) as runtime, contextlib.closing(vkcompute.Runtime()) as other:
        target = block_target(other)._replace(
            own_elements=Target().own_elements, sums=Target().sums, stages=True, matrices=matrices_of(other)
        )
        cached(runtime, Target, lambda: target)
        yield runtime


@pytest.fixture(scope="session")
def two_runtimes(_silence_at_the_end: None) -> Iterator[list[vkcompute.Runtime]]:
    """One runtime on each of two devices; where there is one device, two on it."""
    import vkcompute

    with vkcompute.DeviceGroup() as everything:
        result = list(everything.runtimes[:2])
        with contextlib.ExitStack() as more:
            yield (
                result if len(result) == 2 else [*result, more.enter_context(contextlib.closing(vkcompute.Runtime(0)))]
            )


@pytest.fixture
def group(two_runtimes: list[vkcompute.Runtime]) -> Iterator[vkcompute.DeviceGroup]:
    """The two as a group that divides unequally."""
    import vkcompute

    with vkcompute.DeviceGroup(two_runtimes) as group:
        group.weights = (2, 1)
        yield group


@pytest.fixture
def clean_handles() -> Iterator[None]:
    """Fail a test that leaves more, or fewer, open handles than it found."""
    from vkcompute.core.lifetime import live_counts

    gc.collect()
    before = live_counts()
    yield
    gc.collect()
    after = live_counts()
    changed = {k: (before.get(k, 0), after.get(k, 0)) for k in {*before, *after} if before.get(k, 0) != after.get(k, 0)}
    if changed:
        lines = [f"{kind}: {was} open before, {now} after" for kind, (was, now) in sorted(changed.items())]
        pytest.fail("handles were leaked or closed twice:\n" + "\n".join(lines), pytrace=False)


@pytest.fixture(scope="session")
def all_drivers_env() -> dict[str, str]:
    """An environment for subprocesses in which every software driver is found at once: several devices, no GPU."""
    manifests = os.environ.get("VKCOMPUTE_TEST_ALL_ICDS", "")
    if not manifests:
        pytest.skip("needs two drivers: VKCOMPUTE_TEST_ALL_ICDS is not set (make test sets it)")
    env = {name: value for name, value in os.environ.items() if name != "VKCOMPUTE_DEVICE"}
    return env | {"VK_ICD_FILENAMES": manifests, "VK_DRIVER_FILES": manifests}


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a fresh interpreter: `run_python("import vkcompute", env=...)`, its output as text."""

    def run(code: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=hang_limit_s(), check=False)

    return run
