"""The host's time per call of small functions, in microseconds and in bare launches, beside PyTorch's on the CPU.

The unit is `vc.elementwise("x + y")(x, y, out=out)` of the commit in UNIT, measured from a worktree of it in turn with
each call, so that neither a faster launch nor the machine's speed moves it. Without git's history it is the
present launch, and the output says so. A time is CPU time of the threads that run Python; the drivers' threads, and
waits for the device, do not count. PyTorch's has the work, too, since it computes in the call.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]  # measures this checkout

from host_time import CALLS, ROUNDS, per_call_us  # noqa: E402
from machine import describe  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.compat.triton as triton  # noqa: E402
import vkcompute.compat.triton.language as tl  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402
from vkcompute import nn  # noqa: E402

UNIT = "6547ca94"
TURNS = 8
RECORD = HERE / "results" / "host.json"
N = 64


class Case(NamedTuple):
    """A call, and PyTorch's if it has one."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any] | None = None


@vc.kernel
def scale(x, out, factor):  # noqa: ANN001, ANN201
    """Stores a multiple."""
    i = vc.global_id(0)
    if i < out.size:
        out[i] = factor * x[i]


@triton.jit
def add_blocks(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Stores a sum."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


class Data:
    """Arrays of one library: of numpy's `values`, by name."""

    def __init__(self, convert: Callable[[np.ndarray[Any, Any]], Any], values: dict[str, np.ndarray[Any, Any]]) -> None:
        for name, value in values.items():
            setattr(self, name, convert(value))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def values() -> dict[str, np.ndarray[Any, Any]]:
    """Returns the operands: float32, except for indices and masks."""
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "x": floats(N, N), "y": floats(N, N), "line": floats(N), "indices": rng.integers(0, N, N).astype(np.int32),
        "mask": floats(N, N) > 1, "ones": np.ones((N, N), np.float32), "wide": floats(N, 1), "few": floats(7, N),
        "image": floats(1, 4, 16, 16), "filters": floats(8, 4, 3, 3), "heads": floats(1, 2, 32, 16),
        "rows": rng.integers(0, N, 32).astype(np.int32), "ints": rng.integers(0, 9, (N, N)).astype(np.int32),
        "target": floats(N, N), "flat": floats(N * N),
    }  # fmt: skip


def array_cases(a: Any, t: Any, torch: Any) -> Iterator[Case]:
    """Yields expressions, reductions and changes of shape."""

    def case(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Case:
        return Case(name, ours, theirs if torch is not None else None)

    yield case("x + y", lambda: a.x + a.y, lambda: t.x + t.y)
    yield case("x * 2 + 1", lambda: a.x * 2 + 1, lambda: t.x * 2 + 1)
    yield case("five operations", lambda: ((a.x + a.y) * a.x - a.y) * (a.x / a.y),
               lambda: ((t.x + t.y) * t.x - t.y) * (t.x / t.y))  # fmt: skip
    yield case("exp(-x) * sin(y) + x / 3", lambda: vnp.exp(-a.x) * vnp.sin(a.y) + a.x / 3,
               lambda: torch.exp(-t.x) * torch.sin(t.y) + t.x / 3)  # fmt: skip
    yield case("x + line", lambda: a.x + a.line, lambda: t.x + t.line)
    yield case("x > y", lambda: a.x > a.y, lambda: t.x > t.y)
    yield case("where(mask, x, y)", lambda: vnp.where(a.mask, a.x, a.y), lambda: torch.where(t.mask, t.x, t.y))
    yield case("clip(x, -1, 1)", lambda: vnp.clip(a.x, -1, 1), lambda: torch.clip(t.x, -1, 1))
    yield case("x.astype(int32)", lambda: a.x.astype(np.int32), lambda: t.x.to(torch.int32))
    for name in ("sum", "mean", "max", "argmax", "var", "std"):
        yield case(f"{name}(x)", lambda name=name: getattr(vnp, name)(a.x), lambda name=name: getattr(torch, name)(t.x))
        yield case(f"{name}(x, axis 1)", lambda name=name: getattr(vnp, name)(a.x, axis=1),
                   lambda name=name: getattr(torch, name)(t.x, dim=1))  # fmt: skip
    yield case("sum(x, axis 0)", lambda: vnp.sum(a.x, axis=0), lambda: torch.sum(t.x, dim=0))
    yield case("any(mask)", lambda: vnp.any(a.mask), lambda: torch.any(t.mask))
    yield case("cumsum(x, axis 1)", lambda: vnp.cumsum(a.x, axis=1), lambda: torch.cumsum(t.x, dim=1))
    yield case("sort(x)", lambda: vnp.sort(a.x), lambda: torch.sort(t.x))
    yield case("argsort(x)", lambda: vnp.argsort(a.x), lambda: torch.argsort(t.x))
    yield case("copy", lambda: a.x.copy(), lambda: t.x.clone())
    yield case("transposed copy", lambda: a.x.T.copy(), lambda: t.x.T.contiguous())
    yield case("concatenate of two", lambda: vnp.concatenate((a.x, a.y)), lambda: torch.cat((t.x, t.y)))
    yield case("stack of two", lambda: vnp.stack((a.x, a.y)), lambda: torch.stack((t.x, t.y)))
    yield case("repeat(line, 4)", lambda: vnp.repeat(a.line, 4), lambda: t.line.repeat_interleave(4))
    yield case("pad by one", lambda: vnp.pad(a.x, 1), lambda: torch.nn.functional.pad(t.x, (1, 1, 1, 1)))
    yield case("flip(x)", lambda: vnp.flip(a.x, 1).copy(), lambda: torch.flip(t.x, (1,)))
    yield case("roll(x, 3)", lambda: vnp.roll(a.x, 3, axis=1), lambda: torch.roll(t.x, 3, 1))
    yield case("zeros", lambda: vnp.zeros((N, N)), lambda: torch.zeros((N, N)))
    yield case("arange", lambda: vnp.arange(N), lambda: torch.arange(N))
    yield case("matmul", lambda: a.x @ a.y, lambda: t.x @ t.y)
    yield case("matmul, transposed", lambda: a.x @ a.y.T, lambda: t.x @ t.y.T)
    yield case("einsum ij,ij->i", lambda: vnp.einsum("ij,ij->i", a.x, a.y), lambda: torch.einsum("ij,ij->i", t.x, t.y))
    yield case("bincount(rows)", lambda: vnp.bincount(a.rows, minlength=N), lambda: torch.bincount(t.rows, minlength=N))
    yield case("searchsorted", lambda: vnp.searchsorted(a.line, a.few), lambda: torch.searchsorted(t.line, t.few))


def index_cases(a: Any, t: Any, torch: Any) -> Iterator[Case]:
    """Yields reads and writes of elements by indices, masks and slices."""

    def assign(array: Any, key: Any, value: Any) -> None:
        array[key] = value

    def case(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Case:
        return Case(name, ours, theirs if torch is not None else None)

    yield case("x[3:40, 1:50] copied", lambda: a.x[3:40, 1:50].copy(), lambda: t.x[3:40, 1:50].clone())
    yield case("x[indices]", lambda: a.x[a.indices].compute(), lambda: t.x[t.indices.long()])
    yield case(
        "take(x, indices, 1)", lambda: vnp.take(a.x, a.indices, axis=1), lambda: torch.index_select(t.x, 1, t.indices)
    )
    yield case("x[rows, rows]", lambda: a.x[a.rows, a.rows].compute(), lambda: t.x[t.rows.long(), t.rows.long()])
    yield case("x[mask] = 0", lambda: assign(a.target, a.mask, 0), lambda: assign(t.target, t.mask, 0))
    yield case(
        "x[indices] = y", lambda: assign(a.target, a.indices, a.y), lambda: assign(t.target, t.indices.long(), t.y)
    )
    yield case("putmask(x, mask, y)", lambda: vnp.putmask(a.target, a.mask, a.y),
               lambda: t.target.copy_(torch.where(t.mask, t.y, t.target)))  # fmt: skip
    yield case("x[2:30] = y", lambda: assign(a.target, slice(2, 30), a.y[:28]),
               lambda: assign(t.target, slice(2, 30), t.y[:28]))  # fmt: skip
    yield case("x += y", lambda: a.target.__iadd__(a.y), lambda: t.target.add_(t.y))
    yield case("x[3] = 1", lambda: assign(a.target, 3, 1), lambda: assign(t.target, 3, 1))
    yield case("x.fill(2)", lambda: a.target.fill(2), lambda: t.target.fill_(2))
    yield case("take_along_axis", lambda: vnp.take_along_axis(a.x, a.ints, axis=1),
               lambda: torch.gather(t.x, 1, t.ints.long()))  # fmt: skip


def network_cases(a: Any, t: Any, torch: Any) -> Iterator[Case]:
    """Yields functions of neural networks."""
    f = None if torch is None else torch.nn.functional

    def case(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Case:
        return Case(name, ours, theirs if torch is not None else None)

    yield case("softmax", lambda: nn.softmax(a.x), lambda: f.softmax(t.x, -1))
    yield case("log_softmax", lambda: nn.log_softmax(a.x), lambda: f.log_softmax(t.x, -1))
    yield case(
        "layer_norm", lambda: nn.layer_norm(a.x, N, a.line, a.line), lambda: f.layer_norm(t.x, (N,), t.line, t.line)
    )
    yield case("rms_norm", lambda: nn.rms_norm(a.x, N, a.line), lambda: f.rms_norm(t.x, (N,), t.line))
    yield case("linear", lambda: nn.linear(a.x, a.y, a.line), lambda: f.linear(t.x, t.y, t.line))
    yield case(
        "linear, gelu",
        lambda: nn.linear(a.x, a.y, a.line, activation="gelu"),
        lambda: f.gelu(f.linear(t.x, t.y, t.line)),
    )
    yield case("gelu", lambda: nn.gelu(a.x), lambda: f.gelu(t.x))
    yield case("relu", lambda: nn.relu(a.x), lambda: f.relu(t.x))
    yield case(
        "conv2d", lambda: nn.conv2d(a.image, a.filters, padding=1), lambda: f.conv2d(t.image, t.filters, padding=1)
    )
    yield case("max_pool2d", lambda: nn.max_pool2d(a.image, 2), lambda: f.max_pool2d(t.image, 2))
    yield case("attention", lambda: nn.scaled_dot_product_attention(a.heads, a.heads, a.heads),
               lambda: f.scaled_dot_product_attention(t.heads, t.heads, t.heads))  # fmt: skip
    yield case("topk(5)", lambda: nn.topk(a.x, 5), lambda: torch.topk(t.x, 5))


def kernel_cases(gpu: vc.Runtime, a: Any) -> Iterator[Case]:
    """Yields launches of kernels, block programs, random numbers and graphs."""
    out = gpu.empty((N, N), np.float32)
    add, reduction = vc.elementwise("x + y"), vc.reduce("a + b", 0)
    rng = vnp.random.default_rng(0)
    grid = (N * N // 1024,)
    host = np.ones((N, N), np.float32)
    yield Case("elementwise(out=)", lambda: add(a.x, a.y, out=out))
    yield Case("elementwise, new result", lambda: add(a.x, a.y))
    yield Case("reduce", lambda: reduction(a.x))
    yield Case("kernel in Python", lambda: scale(a.flat, a.target.reshape(-1), 2.0))
    yield Case("block program", lambda: add_blocks[grid](a.x, a.y, out, N * N, BLOCK=1024))
    yield Case("empty", lambda: gpu.empty((N, N), np.float32))
    yield Case("array from NumPy", lambda: gpu.array(host))
    yield Case("rng.normal", lambda: rng.normal(size=(N, N)))
    yield Case("rng.random", lambda: rng.random((N, N), dtype=np.float32))
    yield Case("rng.integers", lambda: rng.integers(0, 9, (N, N)))
    yield Case("rng.poisson", lambda: rng.poisson(3.0, (N, N)))
    with gpu.record() as graph:
        scale(a.flat, out.reshape(-1), 2.0)
        add(a.x, out, out=out)
    yield Case("graph of two launches", graph.run)
    from graphed_training import Network  # it needs `vc.graph`, which earlier commits lack

    small, step = vc.graph(lambda x, y: vnp.exp(x @ y)), Network(gpu).graphed_step
    image, target = gpu.array(np.ones((N, N), np.float32)), gpu.array(np.ones((N, 10), np.float32))
    yield Case("vc.graph of two launches", lambda: small(a.x, a.y))
    yield Case("vc.graph of a training step", lambda: step(image, target))


@contextlib.contextmanager
def worktree() -> Iterator[Path | None]:
    """Yields a worktree of the unit's commit; None where git has no such commit, as in a wheel."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as undo:
        tree = Path(scratch) / "unit"
        command = ["git", "worktree", "add", "--detach", "--force", str(tree), UNIT]
        with contextlib.suppress(OSError):
            if not subprocess.run(command, cwd=HERE, capture_output=True, check=False).returncode:
                remove = ["git", "worktree", "remove", "--force", str(tree)]
                undo.callback(subprocess.run, remove, cwd=HERE, capture_output=True, check=False)
                yield tree
                return
        yield None


@contextlib.contextmanager
def asked(folder: Path, *options: Any) -> Iterator[Callable[[str], float | None]]:
    """Yields a function that measures a call of a checkout in a process of its own, by its name, in microseconds."""
    words = [sys.executable, str(HERE / "unit_calls.py"), str(folder), *map(str, options)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            into, out = child.stdin, child.stdout
            if out.readline().strip() != "ready":
                raise SystemExit("the calls of another checkout cannot be measured; its error is above")

            def measure(name: str = "") -> float | None:
                print(name, file=into, flush=True)
                return float(answer) if (answer := out.readline().strip()) else None

            yield measure
        finally:
            child.terminate()


@contextlib.contextmanager
def unit() -> Iterator[tuple[Callable[[str], float | None], str]]:
    """Yields a function that measures the unit, or a call at its commit, in microseconds, and what the unit is."""
    with worktree() as tree, asked(tree or HERE.parent) as measure:
        said = f"a bare launch of commit {UNIT}" if tree else "the present bare launch (git has no commit of it here)"
        yield measure, said


def computing(call: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a call that enqueues what its lazy results need; the call itself if it has none, as the unit is."""
    result = call()
    arrays = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(array, vc.Array) and array.is_pending for array in arrays):
        return call
    if isinstance(result, vc.Array):
        return lambda: call().compute()
    return lambda: [array.compute() for array in call()]


def measured(
    case: Case, gpu: vc.Runtime, bare: Callable[[str], float | None], calls: int, turns: int, *, before: bool = False
) -> dict[str, Any]:
    """Returns a row: the least microseconds of a call, of PyTorch's and of the unit, measured by turns.

    What else runs on the machine comes and goes: of many short turns, some are without it, for each of these.

    Args:
        before: True to measure the call at the unit's commit, too.
    """
    ours = computing(case.ours)
    times: dict[str, list[float | None]] = {name: [] for name in ("us", "torch_us", "unit_us", "before_us")}
    for _ in range(turns):
        times["unit_us"].append(bare(""))
        times["us"].append(per_call_us(ours, gpu.wait, calls, ROUNDS))
        if case.theirs is not None:
            times["torch_us"].append(per_call_us(case.theirs, lambda: None, calls, ROUNDS))
        if before:
            times["before_us"].append(bare(case.name))
    least = {name: min([x for x in of if x is not None], default=None) for name, of in times.items()}
    return {"name": case.name, **least, "launches": least["us"] / least["unit_us"]}  # type: ignore[operator]


def line(row: dict[str, Any], earlier: dict[str, float]) -> str:
    """Formats a row, with the recorded figure and the change if there are any."""
    theirs = f"{row['torch_us'] / row['unit_us']:8.2f}" if row["torch_us"] is not None else f"{'':>8}"
    text = f"{row['name']:<28} {row['us']:9.1f} {row['launches']:9.2f} {theirs}"
    if row["name"] in earlier:
        text += f" {earlier[row['name']]:9.2f} {row['launches'] / earlier[row['name']]:7.2f}"
    return text


def tabulated(records: dict[str, Any]) -> str:
    """Returns the calls of the recorded devices in bare launches, as a table in Markdown."""
    devices = {name: {row["name"]: row for row in record["rows"]} for name, record in records.items()}
    first = next(iter(devices.values()), {})
    head = ["call", "before", *[f"now, {name.partition(' ')[0]}" for name in devices], "PyTorch"]
    lines = [head, ["---"] * len(head)]
    for name, row in first.items():
        cells = [row.get("before_us"), *[rows[name]["us"] if name in rows else None for rows in devices.values()]]
        units = [row["unit_us"], *[rows[name]["unit_us"] if name in rows else 1.0 for rows in devices.values()]]
        figures = [*zip(cells, units, strict=True), (row["torch_us"], row["unit_us"])]
        lines.append([name, *["" if us is None else f"{us / unit_us:.2g}" for us, unit_us in figures]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--only", help="calls whose name contains this text")
    parser.add_argument("--before", action="store_true", help="measures each call at the unit's commit, too")
    parser.add_argument("--table", action="store_true", help="prints the record as a table, and measures nothing")
    parser.add_argument("--smoke", action="store_true", help="few calls, to see if it runs")
    parser.add_argument("--save", action="store_true", help=f"write the record, {RECORD.name}, for this device")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    return parser.parse_args()


def main() -> int:
    """Measures the calls; compares with the record."""
    options = arguments()
    if options.device:
        os.environ["VKCOMPUTE_DEVICE"] = options.device
    torch: Any = None
    if find_spec("torch") is not None:
        import torch  # type: ignore[no-redef]
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if options.table:
        print(tabulated(records))
        return 0
    calls, turns = (2, 1) if options.smoke else (CALLS, TURNS)
    with vc.default_runtime() as gpu, unit() as (bare, said):
        a = Data(gpu.array, values())
        t = None if torch is None else Data(torch.tensor, values())
        every = [
            *array_cases(a, t, torch),
            *index_cases(a, t, torch),
            *network_cases(a, t, torch),
            *kernel_cases(gpu, a),
        ]
        about = describe(gpu)
        earlier = {row["name"]: row["launches"] for row in records.get(about["device"]["name"], {}).get("rows", [])}
        print(f"the host's time per call; the unit is {said}")
        print(
            f"{'call':<28} {'us':>9} {'launches':>9} {'PyTorch':>8}"
            + (f" {'recorded':>9} {'ratio':>7}" if earlier else "")
        )
        rows = []
        for case in every:
            if options.only is None or options.only in case.name:
                rows.append(measured(case, gpu, bare, calls, turns, before=options.before))
                print(line(rows[-1], earlier), flush=True)
    result = {**about, "unit": said, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.save:
        RECORD.write_text(json.dumps({**records, about["device"]["name"]: result}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
