"""Exit, fork and Ctrl-C: in processes of their own, with the validation layer on, nothing said and nothing hanging."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hang_limit import hang_limit_s
from machine import SCALE

RunPython = Callable[..., subprocess.CompletedProcess[str]]

IMPORTS = """
import contextlib, gc, os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks with threads
import numpy as np
import vkcompute as vc
"""
OPEN = f"""{IMPORTS}
SCALE = {SCALE!r}
gpu = vc.Runtime()
kernel = gpu.kernel(vc.glsl(SCALE))
x = gpu.zeros(1 << 18, np.int32)
def launch(n=50):
    for _ in range(n):
        future = kernel(x, 1, 1)
    return future
launch()
with gpu.record() as graph:
    launch(5)
graph.submit(3)
"""
ENDINGS = {
    "everything open": "",
    "an exception": "raise SystemExit(3)",
    "in a function": "def f():\n    y = gpu.zeros(10); launch(); sys.exit(3)\nf()",
    "closed": "gpu.close()",
    "three runtimes": "other = vc.Runtime(); y = other.full(100, 1.0); z = vc.default_runtime().zeros(3)",
    "memory lent": "seen = np.from_dlpack(x) if gpu.device.memory.unified else x; gpu.close()",
    "memory lent, open": "seen = np.from_dlpack(x) if gpu.device.memory.unified else x",
    "a circle": "gpu.me = [gpu, kernel, x]; del gpu, kernel, x, graph",
    "while recording": "graph = gpu.record(); graph.__enter__(); kernel(x, 1, 1)",
    "threads at work": '''
y = gpu.zeros(100, np.int32)
def work():
    with contextlib.suppress(vc.ClosedError):
        while True:
            kernel(y, 1, 1); x.numpy(); gpu.zeros(1000).write(np.ones(1000, np.float32))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(.3)
''',
    "a future watched": "import concurrent.futures; launch().add_done_callback(lambda future: None)",
    "core objects without a runtime": '''
from vkcompute.core.device import Device
from vkcompute.core.instance import Instance
from vkcompute.core.physical import choose, enumerate_devices
device = Device(choose(enumerate_devices(Instance())))
buffer = device.buffer(100)
''',
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_with_everything_open(run_python: RunPython, ending: str) -> None:
    done = run_python(OPEN + ENDINGS[ending])
    assert done.stderr == ""
    assert done.returncode == (3 if "3)" in ENDINGS[ending] and "exit" in ENDINGS[ending].lower() else 0)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

LEAVE = """
import atexit, ctypes, os, re
from vkcompute.core import vk
checked = os.environ.get("VKCOMPUTE_VALIDATION")
layers = [each.specVersion for each in vk.enumerate_all("vkEnumerateInstanceLayerProperties", "VkLayerProperties")]
def leave(status, driver):
    version = re.search("Mesa ([0-9]+)", driver)
    # In a forked child, the exit handlers of newer drivers, validation layers and drivers within others hang, or crash.
    new_layers = checked and max(layers, default=0) >= 1 << 22 | 4 << 12
    if (version and int(version[1]) >= 25) or new_layers or "MANY_QUEUES_DRIVER" in os.environ:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(status)
    sys.exit(status)
"""
IN_THE_CHILD = f"""{LEAVE}
driver = gpu.device.physical.driver
"""
IN_THE_CHILD += """
def refused(what, use):
    try:
        use()
    except vc.ClosedError as error:
        assert str(os.getpid()) in str(error) or "process" in str(error), error
    else:
        print("not refused:", what, flush=True)

def watch(future):
    future.add_done_callback(lambda _: None)
    future.result()

future = launch()
y = gpu.zeros(10, np.int32)
busy = threading.Event()
stop = threading.Event()
def hammer():
    while not stop.is_set():
        kernel(y, 1, 0); busy.set()
threading.Thread(target=hammer, daemon=True).start()
busy.wait()
pid = os.fork()
if pid == 0:
    import faulthandler
    faulthandler.dump_traceback_later(20, exit=True)
    for what, use in {
        "launch": lambda: kernel(x, 1, 1), "numpy": x.numpy, "write": lambda: x.write(1), "fill": lambda: x.fill(1),
        "copy": x.copy, "empty": lambda: gpu.empty(3), "kernel": lambda: gpu.kernel("multiply_bool"), "wait": gpu.wait,
        "flush": gpu.flush, "graph": graph.run, "record": lambda: gpu.record().__enter__(), "with": gpu.__enter__,
        "dlpack": x.__dlpack__,
    }.items():
        refused(what, use)
    for use in (future.result, future.done, lambda: watch(future)):
        with contextlib.suppress(vc.ClosedError):  # unless it is known to be finished
            use()
    gpu.close(); x.close(); graph.close()
    del gpu, x, graph, kernel, future
    gc.collect()
    leave(0, driver)
_, status = os.waitpid(pid, 0)
stop.set()
assert os.waitstatus_to_exitcode(status) == 0, status
before = x.numpy()[0]
launch(10)
assert x.numpy()[0] == before + 10
print("done")
"""


@needs_fork
@pytest.mark.parametrize("repeat", range(2))
def test_a_forked_child_is_told_and_the_parent_goes_on(run_python: RunPython, repeat: int) -> None:
    done = run_python(OPEN + IN_THE_CHILD)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


VALUES_OF_A_THREAD = """
import os, threading
from vkcompute.core.lifetime import Handle
class Noted(Handle):
    def __init__(self):
        self._opened()
    def _destroy(self):
        os.write(1, b"destroyed in the child" if os.getpid() != self._pid else b"")
kept, started, stop = threading.local(), threading.Event(), threading.Event()
def hold():
    kept.handle = Noted()
    started.set()
    stop.wait()
thread = threading.Thread(target=hold)
thread.start()
started.wait()
if (pid := os.fork()) == 0:
    os._exit(0)
os.waitpid(pid, 0)
stop.set()
"""


@needs_fork
def test_a_child_destroys_nothing_of_the_threads_that_it_does_not_have(run_python: RunPython) -> None:
    done = run_python(VALUES_OF_A_THREAD)
    assert (done.stdout, done.returncode) == ("", 0)


OWN_RUNTIME = f"""{LEAVE}
import faulthandler
"""
OWN_RUNTIME += """
from vkcompute.core.quirks import quirks_of
def compute(runtime):
    x = runtime.full(100_000, 3, np.int32)
    vc.elementwise("v * v")(x, out=x)
    return x.numpy().tolist() == [9] * 100_000
def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.dump_traceback_later(20, exit=True)
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            leave(1, driver)
        faulthandler.cancel_dump_traceback_later()
        ctypes.CDLL(None).puts(b"bye")  # in C's buffer, as stdout is a pipe
        leave(7, driver)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
def own():
    with vc.Runtime() as own:
        assert compute(own)
    assert compute(vc.default_runtime())
"""
OPENED = {
    "a runtime": "gpu = vc.Runtime()",
    "two": "gpu = vc.Runtime(); vc.Runtime().close()",
    "memory lent": """
gpu = vc.Runtime()
seen = np.from_dlpack(gpu.zeros(10)) if gpu.device.memory.unified else vc.Runtime()
gpu.close()
""",
}


@pytest.mark.rotates
@pytest.mark.every_driver
@needs_fork
@pytest.mark.parametrize("opened", OPENED)
def test_a_forked_child_opens_a_runtime_or_is_told_why_not(run_python: RunPython, opened: str) -> None:
    code = """
with vc.Runtime() as gpu:
    survives, driver = quirks_of(gpu.device.physical).survives_forks, gpu.device.physical.driver
OPENED
def refused():
    for open in (vc.Runtime, vc.default_runtime):
        try:
            open()
        except vc.ClosedError as error:
            assert str(os.getppid()) in str(error) and "'spawn'" in str(error), error
        else:
            raise SystemExit("not refused")
in_child(own if survives else refused)
print(compute(vc.default_runtime()))
"""
    done = run_python(IMPORTS + OWN_RUNTIME + code.replace("OPENED", OPENED[opened]))
    assert (done.stdout, done.stderr, done.returncode) == ("bye\nTrue\n", "", 0)


@needs_fork
def test_a_fork_while_no_device_is_open_is_like_any_process(run_python: RunPython) -> None:
    code = """
driver = ""  # its exit handler works
in_child(own)
with vc.Runtime() as gpu:
    assert compute(gpu)
in_child(own)
print(compute(vc.default_runtime()))
"""
    done = run_python(IMPORTS + OWN_RUNTIME + code)
    assert (done.stdout, done.stderr, done.returncode) == ("bye\nbye\nTrue\n", "", 0)


# Work for some seconds on any device, of which one invocation does all: a linear congruential generator, in rounds.
INTERRUPTED = """
source = '''
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint v = x[0]; for (uint i = 0; i < n; i++) v = v * 1664525u + 1013904223u; x[0] = v; }
'''
N = 60000
spin, y, rounds = gpu.kernel(vc.glsl(source)), gpu.zeros(1, np.uint32), 0
def launch_rounds(n):
    global rounds
    rounds += n
    for _ in range(n):
        future = spin(y, N)
    return future
launch_rounds(1).result()
start = time.perf_counter()
launch_rounds(500).result()
n = int(500 * 2.5 / (time.perf_counter() - start))
with gpu.record() as graph:  # one submit: launches wait once a second of work is ahead
    spin(y, N)
rounds += n
future = graph.submit(n)
start = time.perf_counter()
print("waiting", flush=True)
try:
    future.result()
except KeyboardInterrupt:
    print("interrupted", flush=True)
took = time.perf_counter() - start
assert took < 1.5, took
assert not future.done()
future.result()
a, c, m = 1664525, 1013904223, 1 << 32
print(y.numpy()[0] == c * ((pow(a, N * rounds, (a - 1) * m) - 1) // (a - 1)) % m, flush=True)
launch_rounds(1).result()
gpu.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is not sent to processes there")
def test_ctrl_c_ends_a_long_wait() -> None:
    """Ctrl-C from another process; test_interruptions.py sends it to each kind of wait."""
    command = [sys.executable, "-c", OPEN + INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=hang_limit_s())
    assert (out, err, process.returncode) == ("interrupted\nTrue\n", "", 0)


DAEMONS = """
import threading, time, warnings
warnings.simplefilter("ignore")
import vkcompute as vc
import vkcompute.numpy as vnp
x, started = vnp.arange(1000), threading.Event()
def compute():
    while True:
        try:
            while True:
                (x * 2).compute()
                x.sum().item()
                started.set()
        except Exception:
            print("an error at the end", flush=True)
threads = [threading.Thread(target=compute, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
started.wait()
"""


def test_daemon_threads_end_silently(run_python: RunPython) -> None:
    done = run_python(DAEMONS)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
