"""Kompute 0.5: each operation in each of its forms, sequences, names, misuse, and random programs against a model."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.compat import kp05 as kp
from vkcompute.errors import CompileError, KomputeError

GLSL = """#version 450
layout(local_size_x = 1) in;
layout(constant_id = 0) const float factor = 1;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
void main() {
    uint i = gl_WorkGroupID.x * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    c[i] = a[i] * b[i] * factor;
}
"""
SPIRV = vc.glsl(GLSL)
SLOW = vc.glsl("""#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
void main() { uint i = gl_GlobalInvocationID.x; float x = a[i];
    for (uint k = 0; k < 30000; k++) x = x * 1.0000001 + 1; a[i] = x; }
""")


@pytest.fixture(scope="module")
def mgr() -> Iterator[kp.Manager]:
    manager = kp.Manager()
    yield manager
    manager.destroy()


@pytest.fixture
def three(mgr: kp.Manager) -> list[kp.Tensor]:
    return [mgr.build_tensor(item) for item in ([2, 2, 2], [1, 2, 3], [0, 0, 0])]


def brought(mgr: kp.Manager, tensor: kp.Tensor) -> list[float]:
    mgr.eval_tensor_sync_local_def([tensor])
    return tensor.data()


FORMS = ["def", "named", "async def", "async named", "record"]
Run = Callable[..., None]


@pytest.fixture(params=FORMS)
def run(request: pytest.FixtureRequest, mgr: kp.Manager) -> Run:
    """Runs an operation to its end, in each of its forms."""

    def work(name: str, tensors: Any, *args: Any, **named: Any) -> None:
        form, sequence = request.param, f"named {next(COUNT)}"
        if form == "record":
            recorded = mgr.create_sequence(sequence)
            assert recorded.begin()
            assert getattr(recorded, f"record_{name}")(tensors, *args, **named) is True
            assert recorded.end()
            assert recorded.eval() is True
            return
        method = getattr(mgr, f"eval_{'async_' if 'async' in form else ''}{name}{'_def' if 'def' in form else ''}")
        assert method.__name__ in dir(kp.Manager)
        args = args if "def" in form else (sequence, *args)
        assert method(tensors, *args, **named) is True
        if "async" in form:
            assert (mgr.eval_await_def() if "def" in form else mgr.eval_await(sequence)) is True

    return work


COUNT = iter(range(10**9))


# -- operations -------------------------------------------------------------------------------------------------------


def test_create(mgr: kp.Manager, run: Run) -> None:
    """Creation copies the data to the device."""
    tensors = [kp.Tensor([1, 2]), kp.Tensor([3])]
    run("tensor_create", tensors)
    tensors[0].set_data([9, 9])
    assert brought(mgr, tensors[0]) == [1, 2]
    with pytest.raises(KomputeError, match=r"has memory on a device already; use Manager\.rebuild"):
        run("tensor_create", [kp.Tensor([1]), tensors[1]])


def test_copy(mgr: kp.Manager, run: Run, three: list[kp.Tensor]) -> None:
    """Both sides are copied to all other tensors."""
    a, b, out = three
    a[1] = 5
    run("tensor_copy", [a, b, out])
    assert b.data() == out.data() == [2, 5, 2]
    assert brought(mgr, b) == brought(mgr, out) == [2, 2, 2]


def test_sync(mgr: kp.Manager, run: Run, three: list[kp.Tensor]) -> None:
    a, b, _ = three
    a[1], b[1] = 5, 6
    run("tensor_sync_device", [a, b])
    a[1] = b[1] = 0
    run("tensor_sync_local", [a, b])
    assert (a.data(), b.data()) == ([2, 5, 2], [1, 6, 3])


def test_mult(mgr: kp.Manager, run: Run, three: list[kp.Tensor]) -> None:
    run("algo_mult", three)
    assert brought(mgr, three[2]) == [2, 4, 6]


@pytest.mark.parametrize("data", [SPIRV, bytearray(SPIRV), GLSL, GLSL.encode(), list(GLSL)], ids=type)
def test_data_and_str(mgr: kp.Manager, run: Run, three: list[kp.Tensor], data: Any) -> None:
    for name in ("algo_data", "algo_str"):
        run("tensor_copy", [three[0], three[2]])
        run(name, three, data)
        assert brought(mgr, three[2]) == [2, 4, 6]


def test_file(mgr: kp.Manager, run: Run, three: list[kp.Tensor], tmp_path: Path) -> None:
    (tmp_path / "multiply.comp").write_text(GLSL)
    (tmp_path / "multiply.comp.spv").write_bytes(SPIRV)
    for n, name in enumerate(("multiply.comp", "multiply.comp.spv")):
        run("tensor_copy", [three[0], three[2]])
        run("algo_file", three, str(tmp_path / name) if n else tmp_path / name)
        assert brought(mgr, three[2]) == [2, 4, 6]


@pytest.mark.parametrize("shader", [SPIRV, GLSL], ids=["SPIR-V", "GLSL"])
def test_lro(mgr: kp.Manager, run: Run, three: list[kp.Tensor], shader: Any) -> None:
    """The output is on the host afterwards; the inputs are not read back."""
    left, _, out = three
    left[0] = 9
    run("algo_lro", three, shader)
    assert (left.data(), out.data()) == ([9, 2, 2], [2, 4, 6])
    run("algo_lro", three, shader, (2, 1, 1), [10])
    assert out.data() == [20, 40, 6]


def test_lro_that_is_not_one(mgr: kp.Manager, run: Run, three: list[kp.Tensor]) -> None:
    """Raises without a shader, as in Kompute, whose Python interface passes none."""
    with pytest.raises(RuntimeError, match="algo_lro has no shader; pass SPIR-V or GLSL"):
        run("algo_lro", three)
    for wrong in (three[:2], [*three, three[0]], [*three[:2], mgr.build_tensor([1])]):
        with pytest.raises(RuntimeError, match="takes three tensors of one size: left, right, output; got sizes"):
            run("algo_lro", wrong, SPIRV)
    with pytest.raises(RuntimeError, match="no memory on a device"):
        run("algo_lro", [*three[:2], kp.Tensor([0, 0, 0])], SPIRV)


def test_keywords_of_0_6(mgr: kp.Manager, run: Run, three: list[kp.Tensor], tmp_path: Path) -> None:
    (tmp_path / "multiply.comp").write_text(GLSL)
    run("algo_data", three, bytes=SPIRV, work_group=(2, 1, 1))
    assert brought(mgr, three[2]) == [2, 4, 0]
    run("algo_file", three, file_path=str(tmp_path / "multiply.comp"), work_group=(3, 1, 1))
    assert brought(mgr, three[2]) == [2, 4, 6]


@pytest.mark.parametrize("keyword", ["workgroup", "work_group", None])
def test_workgroups_and_constants(mgr: kp.Manager, run: Run, keyword: str | None) -> None:
    tensors = [mgr.build_tensor(np.arange(12.0).reshape(3, 4)) for _ in range(3)]
    mgr.eval_tensor_copy_def([mgr.build_tensor(np.zeros(12)), tensors[2]])
    args: Any = ((2, 4, 1),) if keyword is None else ()
    run("algo_data", tensors, SPIRV, *args, constants=[0.5], **({keyword: (2, 4, 1)} if keyword else {}))
    assert brought(mgr, tensors[2]) == [0.5 * n * n if n < 8 else 0 for n in range(12)]


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (lambda mgr, t: mgr.eval_algo_data_def(t, 3), TypeError, "SPIR-V as bytes, or the text"),
        (lambda mgr, t: mgr.eval_algo_data_def(t, [1, 2]), TypeError, "got list"),
        (lambda mgr, t: mgr.eval_algo_str_def(t, "#version 450\nnonsense"), CompileError, "nonsense"),
        (lambda mgr, t: mgr.eval_algo_file_def(t, "/nowhere/a.comp"), OSError, "nowhere"),
        (lambda mgr, t: mgr.eval_algo_file_def(t, "/nowhere/a.glsl"), ValueError, "ends in .comp or .spv"),
        (lambda mgr, t: mgr.eval_algo_data_def(t[:2], SPIRV), KomputeError, "binding 2"),
        (lambda mgr, t: mgr.eval_algo_data_def([], SPIRV), KomputeError, "destroyed, or was made without"),
        (lambda mgr, t: mgr.eval_algo_mult_def(t[:2]), KomputeError, "takes three tensors"),
        (lambda mgr, t: mgr.eval_tensor_copy_def(t[:1]), KomputeError, "at least 2"),
        (lambda mgr, t: mgr.eval_tensor_copy_def([t[0], mgr.build_tensor([1])]), KomputeError, "of one size"),
        (lambda mgr, t: mgr.eval_tensor_sync_local_def([]), KomputeError, "at least 1"),
        (lambda mgr, t: mgr.eval_tensor_sync_local_def(t[0]), TypeError, "takes a list of kp.Tensor"),
        (lambda mgr, t: mgr.eval_tensor_sync_local_def([t[0], [1]]), TypeError, "takes a list of kp.Tensor"),
        (lambda mgr, t: mgr.eval_tensor_sync_local_def([kp.Tensor([1])]), KomputeError, "no memory on a device"),
        (
            lambda mgr, t: mgr.create_sequence(queueIndex=7),
            KomputeError,
            "queue_index numbers the manager's queues, 0 to 0; got 7",
        ),
        (lambda mgr, t: mgr.eval_await("nobody"), KomputeError, "no sequence is called 'nobody'"),
        (lambda mgr, t: mgr.destroy("nobody"), KomputeError, "no sequence is called 'nobody'"),
        (lambda mgr, t: kp.Manager("no such device"), KomputeError, "no such device"),
    ],
)
def test_misuse(
    mgr: kp.Manager, three: list[kp.Tensor], work: Callable[..., Any], error: type[Exception], message: str
) -> None:
    """The message names the mistake, and all objects stay usable."""
    with pytest.raises(error, match=message):
        work(mgr, three)
    mgr.eval_algo_mult_def(three)
    assert brought(mgr, three[2]) == [2, 4, 6]


def test_shaders(mgr: kp.Manager, three: list[kp.Tensor]) -> None:
    with_macro = kp.Shader.compile_source(GLSL.replace("* factor", "+ SOME"), definitions=[("SOME", "10.0")])
    mgr.eval_algo_data_def(three, with_macro)
    assert brought(mgr, three[2]) == [12, 14, 16]
    with pytest.raises(ValueError, match='is "main"; got'):
        kp.Shader.compile_source(GLSL, "other")


# -- sequences --------------------------------------------------------------------------------------------------------


def test_a_sequence_is_replayed_with_the_hosts_numbers(mgr: kp.Manager, three: list[kp.Tensor]) -> None:
    a, b, out = three
    sequence = mgr.create_sequence()
    sequence.begin()
    sequence.record_tensor_sync_device([a])
    sequence.record_algo_data([a, b, out], SPIRV)
    sequence.record_tensor_sync_local([out])
    sequence.end()
    for n in range(5):
        a.set_data([n, n + 1, n + 2])
        assert sequence.eval()
        assert out.data() == [n, 2 * (n + 1), 3 * (n + 2)]


def test_begin_forgets(mgr: kp.Manager) -> None:
    tensor = mgr.build_tensor([1])
    sequence = mgr.create_sequence()
    sequence.begin()
    sequence.record_tensor_sync_device([tensor])
    sequence.end()
    tensor[0] = 2
    sequence.begin()
    sequence.end()
    assert sequence.eval()
    assert brought(mgr, tensor) == [1]


def test_states_and_their_misuse(mgr: kp.Manager, three: list[kp.Tensor]) -> None:
    sequence = mgr.create_sequence()
    assert (sequence.is_init(), sequence.is_rec(), sequence.is_running()) == (True, False, False)
    with pytest.raises(KomputeError, match=r"records between begin\(\) and end\(\)"):
        sequence.record_tensor_sync_local(three)
    with pytest.raises(KomputeError, match=r"records between begin\(\) and end\(\)"):
        sequence.record_tensor_create([never := kp.Tensor([1])])
    assert not never.is_init()
    with pytest.raises(KomputeError, match="cannot end: it is not recording"):
        sequence.end()
    sequence.begin()
    assert sequence.is_rec()
    with pytest.raises(KomputeError, match="cannot begin: it is recording already"):
        sequence.begin()
    with pytest.raises(KomputeError, match="cannot be evaluated: it is recording"):
        sequence.eval()
    sequence.record_algo_data([mgr.build_tensor(np.zeros(64))], SLOW)
    sequence.end()
    assert sequence.eval_async()
    assert repr(sequence) == "<kp.Sequence, running>"
    with pytest.raises(KomputeError, match="cannot begin: it is running"):
        sequence.begin()
    with pytest.raises(KomputeError, match="running"):
        sequence.eval()
    while not sequence.eval_await(1000):
        assert sequence.is_running()  # a timeout leaves it running
    assert not sequence.is_running()
    assert sequence.eval_await() is False  # nothing runs
    mgr.destroy(sequence)
    sequence.destroy()
    assert not sequence.is_init()
    assert repr(sequence) == "<kp.Sequence, destroyed>"
    for work in (sequence.begin, sequence.eval, sequence.eval_async):
        with pytest.raises(KomputeError, match="destroyed"):
            work()


def test_what_is_refused_in_a_sequence_leaves_its_name_usable(mgr: kp.Manager, three: list[kp.Tensor]) -> None:
    with pytest.raises(KomputeError, match="no memory"):
        mgr.eval_tensor_sync_local([kp.Tensor([1])], "refused")
    other = kp.Manager()
    with pytest.raises(KomputeError, match="belongs to another Manager"):
        mgr.eval_tensor_sync_local([other.build_tensor([1])], "refused")
    other.destroy()
    mgr.eval_algo_mult(three, "refused")
    assert brought(mgr, three[2]) == [2, 4, 6]


def test_init_leaves_a_sequence_as_it_is(mgr: kp.Manager, three: list[kp.Tensor]) -> None:
    sequence = mgr.create_sequence()
    sequence.init()
    sequence.begin()
    sequence.record_algo_mult(three)
    sequence.init()
    assert sequence.is_rec()
    sequence.end()
    sequence.init()
    assert sequence.eval()
    assert brought(mgr, three[2]) == [2, 4, 6]
    sequence.destroy()
    with pytest.raises(KomputeError, match="this Sequence is destroyed"):
        sequence.init()


def test_names(mgr: kp.Manager) -> None:
    first = mgr.create_sequence("same")
    second = mgr.create_sequence("same")
    assert second is not first
    assert mgr.get_create_sequence("same") is mgr.sequence("same") is first
    assert mgr.sequence() is not mgr.sequence()
    mgr.destroy("same")
    assert not first.is_init()
    assert second.is_init()
    assert mgr.get_create_sequence("same") not in (first, second)
    mgr.destroy([mgr.get_create_sequence("same"), second])
    assert not second.is_init()


def test_await_without_anything_running(mgr: kp.Manager, three: list[kp.Tensor], caplog: Any) -> None:
    """Awaiting finished work, as the tutorials do, logs nothing."""
    with caplog.at_level(logging.DEBUG, "kp"):
        fresh = kp.Manager()
        assert fresh.eval_await_def() is False
        mgr.eval_algo_mult_def(three)
        assert mgr.eval_await_def() is False
        fresh.destroy()
    assert not caplog.records


# -- the manager ------------------------------------------------------------------------------------------------------


def test_rebuild(mgr: kp.Manager) -> None:
    tensor, other = kp.Tensor([1, 2]), kp.Tensor([3])
    mgr.rebuild([tensor, other])
    tensor[0] = 7
    mgr.rebuild(tensor)
    tensor[0] = 0
    assert brought(mgr, tensor) == [7, 2]
    mgr.rebuild(tensor, False)
    assert tensor.data() == [7, 2]
    assert mgr.tensor([4, 5], kp.staging, False).data() == [4, 5]
    assert brought(mgr, mgr.tensor([4, 5])) == [4, 5]


def test_a_tensor_moves_to_another_manager(mgr: kp.Manager) -> None:
    tensor, other = mgr.build_tensor([1, 2]), kp.Manager(0, [0])
    other.rebuild(tensor)
    assert brought(other, tensor) == [1, 2]
    other.destroy()
    other.destroy()
    assert not tensor.is_init()
    assert tensor.data() == [1, 2]
    with pytest.raises(KomputeError, match="destroyed"):
        other.create_sequence()
    mgr.rebuild(tensor)
    assert brought(mgr, tensor) == [1, 2]


def test_destroy(mgr: kp.Manager) -> None:
    tensors = [mgr.build_tensor([n]) for n in range(3)]
    sequence = mgr.create_sequence("destroyed with tensors")
    sequence.begin()
    sequence.record_tensor_sync_local([tensors[2]])
    sequence.end()
    mgr.destroy(tensors[0])
    mgr.destroy([tensors[1], tensors[2], tensors[2]])
    assert not any(tensor.is_init() for tensor in tensors)
    with pytest.raises(KomputeError, match="destroyed"):
        sequence.eval()
    mgr.destroy(["destroyed with tensors"])
    assert not sequence.is_init()


def test_log_level() -> None:
    logger = logging.getLogger("kp")
    before = logger.level
    kp.log_level(3)
    assert logger.level == logging.WARNING
    kp.log_level(0)
    assert logger.level == logging.DEBUG
    logger.setLevel(before)


@pytest.mark.usefixtures("clean_handles")
def test_nothing_is_left() -> None:
    """Objects are dropped in any order, destroyed or not, with work in flight."""
    manager = kp.Manager()
    a, b = manager.build_tensor(np.zeros(64)), kp.Tensor([1, 2])
    manager.eval_tensor_create_def([b])
    manager.eval_async_algo_data_def([a], SLOW)
    manager.eval_async_algo_data([a], "named", SLOW)
    manager.rebuild(b)
    view = a.numpy()
    ended = weakref.ref(manager), weakref.ref(b)
    del manager, b
    assert [item() for item in ended] == [None, None]  # without the collector
    gc.collect()
    a.destroy()
    assert view.shape == (64,)
    del a
    gc.collect()


# -- random programs --------------------------------------------------------------------------------------------------

CLAMPED = vc.glsl(GLSL.replace("a[i] * b[i] * factor", "clamp(a[i] * b[i] - factor, -9.0, 9.0)"))
KINDS = ["host", "tensor_sync_device", "tensor_sync_local", "tensor_copy", "algo_data"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), *[st.integers(0, 3)] * 3), min_size=1, max_size=12)


@given(steps=STEPS, batch=st.booleans(), wait=st.booleans())
def test_random_programs(mgr: kp.Manager, steps: list[tuple[str, int, int, int]], batch: bool, wait: bool) -> None:
    """Operations evaluated one by one, or recorded together and evaluated twice, agree with a model of both sides."""
    host = np.float32([[n - 1, n + 1] for n in range(4)])
    device = host.copy()
    tensors = [mgr.build_tensor(item) for item in host]
    sequence = mgr.create_sequence()
    sequence.begin()
    for kind, x, y, z in steps:
        given = [tensors[x], tensors[y], *([tensors[z]] if kind == "algo_data" else [])]
        extra = (CLAMPED,) if kind == "algo_data" else ()
        if kind == "host":
            mgr.current.require_open().wait()  # for all submitted work
            tensors[x][y % 2] = z
        elif batch:
            getattr(sequence, f"record_{kind}")(given, *extra)
        else:
            getattr(mgr, f"eval_{'' if wait else 'async_'}{kind}_def")(given, *extra)
    sequence.end()
    for _ in range(2 if batch else 1):
        sequence.eval()
        for step in sorted(steps, key=lambda step: step[0] != "host") if batch else steps:
            apply(step, host, device)
        steps = [step for step in steps if step[0] != "host"]
    mgr.current.require_open().wait()  # for all submitted work
    np.testing.assert_array_equal([tensor.data() for tensor in tensors], host)
    np.testing.assert_array_equal([brought(mgr, tensor) for tensor in tensors], device)


def apply(step: tuple[str, int, int, int], host: Any, device: Any) -> None:
    kind, x, y, z = step
    if kind == "host":
        host[x, y % 2] = z
    elif kind == "tensor_sync_device":
        device[[x, y]] = host[[x, y]]
    elif kind == "tensor_sync_local":
        host[[x, y]] = device[[x, y]]
    elif kind == "tensor_copy":
        device[y], host[y] = device[x], host[x]
    else:
        device[z] = np.clip(device[x] * device[y] - 1, -9, 9)
