"""Reduces a kernel that a driver crashes on, computes wrongly or hangs on, to the operations that the fault needs.

python tools/reduce_kernel.py integers 17           the random kernel of this kind and number, as in reports of GPUs
python tools/reduce_kernel.py FILE.py               a file with a function `subject()`

subject() returns a Subject, which subject_of(function, arrays, numbers, n) makes of a kernel in Python: `arrays` are
NumPy's, `numbers` are its last arguments, and `n` is the number of invocations of its one workgroup. The file imports
both from reduce_kernel.

The first run tells the fault; candidates must have the same one. Each runs in a process of its own. After a hang, their
limit follows from the time of a kernel without operations, and the result is confirmed by --limit. The interpreter of
the tests computes what is expected, with barriers, shared memory and atomic operations, and refuses candidates that
Vulkan leaves undefined, such as those with races. Wrong results are not seen of kernels with subgroups, with vectors,
or with results of atomic operations, whose order is the driver's: these are reduced if they crash, hang or fail. Floats
may differ by some ulp, and by 2**-10 of the largest one after functions such as sines. The result is printed, and
written to build/reduced as text and SPIR-V.

--plant MODULE:FUNCTION tries the tool itself without a faulty driver: the function gets the SPIR-V of each candidate in
its process, and returns it changed, or crashes. PYTHONPATH must have the folder of its module.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "ir"), str(Path(__file__).resolve().parent)]

import numpy as np  # noqa: E402
from reducer import clone, reduced, size_of  # noqa: E402
from results import are_right, is_approximate, unseen  # noqa: E402

from vkcompute import ir  # noqa: E402
from vkcompute.compiled.arguments import kind_of_array, kind_of_number  # noqa: E402
from vkcompute.compiled.specialization import SIZE, CompileOptions  # noqa: E402
from vkcompute.errors import IrError, KernelError  # noqa: E402
from vkcompute.frontend.source import definition_of  # noqa: E402
from vkcompute.gpu_report.checks.random_kernels import random_of  # noqa: E402
from vkcompute.gpu_report.random_programs.checks import integer_case  # noqa: E402
from vkcompute.gpu_report.random_programs.integers import N  # noqa: E402
from vkcompute.gpu_report.random_programs.oracle import module  # noqa: E402
from vkcompute.jit.compilation.build import build, optimized  # noqa: E402
from vkcompute.jit.frontend.compiler import Compiler  # noqa: E402

# Of tests/ir, which mypy does not read.
interpreter: Any = importlib.import_module("interpreter")
workgroup_interpreter: Any = importlib.import_module("workgroup_interpreter")
_CHILD = Path(__file__).with_name("module_run.py")
_OUT = ROOT / "build" / "reduced"
_FIRST_S = 120.0
"""For a process until its launch, and for the first launch: the driver's files are not in memory yet."""
_GOOD_TIMES, _LEAST_S = 20, 1.0
"""A candidate hangs after this multiple of a good kernel's time, and not before these seconds."""
RIGHT, HUNG = "right", "hung"


class Subject(NamedTuple):
    """A kernel with its arguments.

    Attributes:
        function: as the driver gets it: optimized, and not lowered.
        arrays: by the names of its buffers, in their order.
        pushes: by the names of its push constants, in their order.
        n: invocations, a multiple of the local size.
    """

    function: ir.Function
    arrays: Mapping[str, np.ndarray[Any, Any]]
    pushes: Mapping[str, Any]
    n: int


class Undefined(Exception):
    """Vulkan does not define the results of a function."""


def expected(subject: Subject, function: ir.Function) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays after a function that the interpreter runs.

    Raises:
        Undefined: it divides by 0, shifts by too much, leaves an array, does not end, has a race, reads shared memory
            that nothing has written, or has a barrier that some invocations do not reach.
    """
    arrays = {name: array.flatten() for name, array in subject.arrays.items()}
    before = interpreter.compute
    interpreter.compute = _defined(before)
    try:
        workgroup_interpreter.run(function, arrays, subject.n, subject.pushes)
    except (AssertionError, IndexError, KernelError) as error:
        raise Undefined(str(error)) from error
    finally:
        interpreter.compute = before
    return arrays


def _defined(compute: Any) -> Any:
    def checked(code: str, args: Any, attribute: Any = None) -> Any:
        if code in ("div", "rem", "mod") and args[1].dtype.kind in "iu" and args[1] == 0:
            raise Undefined(f"{code} by 0")
        if code in ("shl", "shr") and not 0 <= args[1] < args[0].dtype.itemsize * 8:
            raise Undefined(f"{code} by {args[1]}")
        return compute(code, args, attribute)

    return checked


class SetupError(Exception):
    """The tool, the driver or its arguments are at fault, and not the kernel."""


class Fault:
    """The predicate: true for functions with the same fault as the subject.

    Args:
        subject: the kernel and its arguments.
        limit_s: seconds after which a launch counts as hung.
        plant: MODULE:FUNCTION, as module_run.py takes it.
        env: the environment of the processes, which selects the driver.

    Attributes:
        outcome: the subject's.
        has_oracle: False if the interpreter cannot run the subject, so that wrong results are not seen.
        unseen: why.
        limit_s: as given.
        candidate_s: the limit for candidates, which is shorter after a hang.

    Raises:
        SetupError: a kernel without operations fails, too.
    """

    def __init__(self, subject: Subject, limit_s: float, plant: str = "", env: Mapping[str, str] = os.environ) -> None:
        self._subject, self._plant, self._env = subject, plant, dict(env)
        self.limit_s, self._launch_s = limit_s, 0.0
        self.unseen = self._unseen()
        self.has_oracle = not self.unseen
        empty = clone(subject.function)
        empty.body.ops = []
        if (outcome := self.outcome_of(empty, max(limit_s, _FIRST_S))) != RIGHT:
            raise SetupError(f"a kernel without operations fails, too, see to the driver and to --plant: {outcome}")
        self.candidate_s = limit_s
        self.outcome = self.outcome_of(clone(subject.function), limit_s)
        if self.outcome == HUNG:
            self.outcome_of(empty, limit_s)  # once more, for its time with the driver's files in memory
            self.candidate_s = min(limit_s, max(_LEAST_S, _GOOD_TIMES * self._launch_s))

    def __call__(self, function: ir.Function) -> bool:
        """Runs a candidate."""
        return self._is_same(function, self.candidate_s)

    def holds(self, function: ir.Function) -> bool:
        """Runs a function with the whole limit, which candidates of a hang do not have."""
        return self.candidate_s == self.limit_s or self._is_same(function, self.limit_s)

    def _is_same(self, function: ir.Function, limit_s: float) -> bool:
        try:
            return self.outcome_of(function, limit_s) == self.outcome
        except (Undefined, IrError):
            return False

    def _unseen(self) -> str:
        """Returns what keeps the interpreter from running the subject; an empty text if it runs."""
        if kinds := unseen(self._subject.function):
            return kinds
        try:
            expected(self._subject, clone(self._subject.function))
        except Undefined as error:
            return f"undefined results, {error}"
        except KeyError as error:
            return f"the operation {error}"
        return ""

    def outcome_of(self, function: ir.Function, limit_s: float) -> str:
        """Returns RIGHT, "wrong", HUNG, or the signal or status that ended the process.

        Raises:
            Undefined: the results are not defined.
        """
        approximate = is_approximate(function)
        wanted = expected(self._subject, function) if self.has_oracle else {}
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
            self._write(source, function, limit_s)
            if ending := self._ending([str(source), str(target), self._plant], _FIRST_S + limit_s, folder):
                return ending
            with np.load(target) as results:
                seconds, *arrays = results.values()
                self._launch_s = float(seconds)
        if not self.has_oracle:
            return RIGHT
        pairs = zip(arrays, wanted.values(), strict=True)
        right = all(are_right(one.reshape(-1), other, approximate=approximate) for one, other in pairs)
        return RIGHT if right else "wrong"

    def _ending(self, arguments: Sequence[str], limit_s: float, folder: str) -> str:
        """Runs a process; returns how it ended, and an empty text if all went well."""
        command = [sys.executable, str(_CHILD), *arguments]
        try:
            done = subprocess.run(command, env=self._env, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return HUNG
        if done.returncode < 0:
            name = signal.Signals(-done.returncode).name
            return HUNG if name == "SIGALRM" else f"crashed by {name}"
        return f"status {done.returncode}: {_last_line(done.stderr, folder)}" if done.returncode else ""

    def _write(self, path: Path, function: ir.Function, limit_s: float) -> None:
        subject = self._subject
        arrays = {f"array{at}": array for at, array in enumerate(subject.arrays.values())}
        kinds = [push.type for push in function.pushes]
        numbers = [subject.pushes[push.name] for push in function.pushes]
        pushes = {
            f"push{at}": np.array(number, kind.numpy)  # type: ignore[union-attr]
            for at, (number, kind) in enumerate(zip(numbers, kinds, strict=True))
        }
        spirv = np.frombuffer(ir.lower(function).spirv, np.uint8)
        np.savez(path, spirv=spirv, n_arrays=len(arrays), n_pushes=len(pushes), limit_s=limit_s,
                 grid=subject.n // function.local_size[0], **arrays, **pushes)  # type: ignore[arg-type]  # fmt: skip


def _last_line(errors: bytes, folder: str) -> str:
    """Returns the last line without numbers: lines and addresses of the same fault differ between candidates."""
    line = (errors.decode(errors="replace").strip().splitlines() or [""])[-1].replace(folder, "FOLDER")
    return re.sub(r"0[xX][0-9a-fA-F]+|\b[0-9a-f]*\d[0-9a-f]{5,}\b|\d+", "#", line)


def subject_of(function: Any, arrays: list[np.ndarray[Any, Any]], numbers: list[int], n: int) -> Subject:
    """Compiles a function of Python for arrays and numbers, which follow them, and a workgroup of `n` invocations."""
    signature = (*map(kind_of_array, arrays), *map(kind_of_number, numbers))
    options = CompileOptions(local_size=(n, 1, 1))
    compiler = build(Compiler, definition_of(function), signature, options)
    values = [*numbers]
    for at, what in compiler.offsets.pushed:
        values.append(arrays[at].size if what == SIZE else arrays[at].shape[what])
    made = optimized(compiler.function, options)
    arrays = [*arrays, *(table.array for table in compiler.tables)]
    named = {memory.name: array for memory, array in zip(made.buffers, arrays, strict=True)}
    return Subject(made, named, {push.name: value for push, value in zip(made.pushes, values, strict=True)}, n)


def integers(number: int) -> Subject:
    """Returns a random kernel of integers, as in reports of GPUs."""
    text, arrays, arguments = integer_case(random_of("integers", number))
    return subject_of(module(text).kernel, arrays, arguments, N)


def _subject_named(what: str, number: int) -> Subject:
    """Returns the kernel that the command line names.

    Raises:
        SetupError: there is none.
    """
    if what == "integers":
        return integers(number)
    if not Path(what).is_file():
        raise SetupError(f"{what} is no file and no kind of random kernels; the kind that can be reduced is integers")
    subject = runpy.run_path(what).get("subject")
    if not callable(subject):
        raise SetupError(f"{what} has no function subject(), which returns a Subject")
    return Subject(*subject())  # its class is that of another module, if this file is the program


def _require_writable(folder: Path) -> None:
    """Makes the folder of the result, which comes late. Raises SetupError if nothing can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SetupError(f"--out {folder} cannot be written: {error.strerror}; name another folder") from error


def _reduced(subject: Subject, fault: Fault) -> ir.Function:
    """Reduces a kernel, and confirms a hang by the whole limit; candidates get it from then on if that fails."""
    result = reduced(subject.function, fault, lambda line: print(line, flush=True))
    if fault.holds(clone(result)):
        return result
    print(f"not hung for {fault.candidate_s:.1f} s and more: once more by the whole limit", flush=True)
    fault.candidate_s = fault.limit_s
    return reduced(subject.function, fault, lambda line: print(line, flush=True))


def main(argv: Sequence[str] | None = None) -> int:
    """Reduces a kernel. Returns 1 if no fault is seen, and 2 if it could not be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="integers, or a file with subject()")
    parser.add_argument("number", type=int, nargs="?", default=0, help="of the random kernel")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds after which a launch counts as hung")
    parser.add_argument("--plant", default="", metavar="MODULE:FUNCTION", help="a planted fault: changes the SPIR-V")
    parser.add_argument("--out", type=Path, default=_OUT, help="folder of the result (default: build/reduced)")
    options = parser.parse_args(argv)
    try:
        _require_writable(options.out)
        subject = _subject_named(options.what, options.number)
        fault = Fault(subject, options.limit, options.plant)
    except SetupError as error:
        print(f"reduce_kernel: {error}", file=sys.stderr)
        return 2
    before = size_of(subject.function)
    print(
        f"{before} operations: {fault.outcome if fault.has_oracle or fault.outcome != RIGHT else 'ended'}", flush=True
    )
    if not fault.has_oracle:
        print(f"results are NOT compared, since the interpreter cannot run it: {fault.unseen}", flush=True)
    if fault.outcome == RIGHT:
        return 1
    result = _reduced(subject, fault)
    text, after = ir.text(result), size_of(result)
    (options.out / "kernel.txt").write_text(f"{text}\n")
    (options.out / "kernel.spv").write_bytes(ir.lower(clone(result)).spirv)
    print(f"{text}\n{after} of {before} operations, {1 - after / before:.1%} less: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
