"""Calls every function of vkcompute.numpy with odd arguments, beside NumPy.

python scripts/arguments.py --only average,quantile --pairs 2000

Each call of `argument_calls.py` is made with one of its arguments replaced by each of the odd values, and with each
further parameter of the function; `--pairs` adds calls with two arguments replaced, by a seed. What NumPy refuses must
be refused, what both compute must be equal, and an error is of one line, of a kind that callers expect, and begins with
the name of the function. Calls that NumPy takes and we refuse are counted, and are no failures. The status is 1 after
a failure. A call that ends the process is one, too: the calls run in a child process, and continue after it.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import random
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402
from argument_calls import ARRAYS, CALLS  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

ODD = (
    "None", "True", "False", "0", "1", "2", "-1", "5", "1.5", "-0.5", "nan", "inf", "10**30", "1j", "'a'", "''", "b'x'",
    "()", "(0,)", "(0, 0)", "(1, 0)", "[1.5]", "[]", "[[1, 2]]", "object()", "f4(1)", "i4(2)", "f4([])", "b1([True])",
    "f4([[1, 2]])", "f4([nan, 1])", "i4([-1, 9])", "c8([1j])", "{}", "slice(None)", "...", "float", "'f4'", "len",
)  # fmt: skip
EXPECTED = TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError, RuntimeError
"""Errors that callers expect of an argument; KeyError, AttributeError and others are of the function's inside."""
_OUR_OWN = "descending", "stable", "a_min", "a_max", "correction", "axisa", "axisb", "axisc", "rtol", "subok"
"""Parameters that some of NumPy's functions do not have."""
ALLOWED = {
    **dict.fromkeys(("keepdims", "overwrite_input", "assume_unique", "copy", "equal_nan", "optimize"), "a truth value"),
    "order": "one of C, F, K and A everywhere",
    "out": "None for no array; integers and floats within their kind, where some functions of NumPy demand one dtype",
    "prepend": "None for nothing", "append": "None for nothing", "mean": "None for no mean",
    "intersect1d.assume_unique": "the right result all the same",
    "empty_like": "any elements", "axes": "None for the last ones", "i0": "of infinity it is infinite",
    **dict.fromkeys(("divmod", "floor_divide"), "inf // x is inf, as the Array API standard has it"),
    "spacing.0": "bools as numbers of the default dtype",
    "unique_values": "in order", "shuffle": "without effect", "random.spawn": "generators of our own",
    "random.seed": "any seed of NumPy's SeedSequence", "random.integers.dtype": "None for the default integer",
    "random.randint.dtype": "None for the default integer", "maximum.reduceat.1": "an empty text as an empty list",
    "astype.0": "lists and tuples as arrays", "result_type.1": "numbers of Python are of the default dtypes",
    "bartlett": "of real numbers", "blackman": "of real numbers", "hamming": "of real numbers",
    "hanning": "of real numbers", "polymul": "leading zeros are kept", "real": "bools stay", "imag": "bools stay",
    **dict.fromkeys(("take.1", "put.1", "insert.1", "ix_.0", "ix_.1", "unravel_index.0"), "no indices, of any dtype"),
    **dict.fromkeys(("round.0", "around.0", "quantile.0", "percentile.0", "nanquantile.0", "nanpercentile.0"), "bools"),
    **dict.fromkeys(("nanmean.0", "nanmax.0", "nanmin.0", "linalg.vector_norm.0", "linalg.tensorinv.0"), "one number"),
    **dict.fromkeys(("polyder.0", "polyint.0", "polyval.0", "trim_zeros.0"), "numbers and lists as arrays"),
    **dict.fromkeys(("add.reduceat.1", "apply_over_axes.2"), "an empty text as an empty list"),
    "indices.dtype": "None for the default integer", "diag_indices.ndim": "an array of one number",
    "linalg.cross.axis": "None for the last axis",
    "place.2": "any dtype of the same kind", "putmask.2": "any dtype of the same kind", "sorted": "always in order",
    "fft.fftfreq.dtype": "None for the default", "fft.rfftfreq.dtype": "None for the default",
}  # fmt: skip
"""Parameter, function, or both -> why a call may do more than NumPy's, or something else."""
_LIMIT_S = 5
_TYPES = {"f4": np.float32, "i4": np.int32, "b1": np.bool_, "c8": np.complex64, "u1": np.uint8}


WRONG = "accepted", "different", "internal", "unnamed"
"""NumPy refuses the call, has another result; the error is of the inside, or does not name the function."""


class Case(NamedTuple):
    """A call.

    Attributes:
        function: its name below the namespace.
        parameters: the names of those that are odd; positions of arguments without a name.
        text: the call.
    """

    function: str
    parameters: tuple[str, ...]
    text: str


class Names(dict[str, Any]):
    """The names that a call may use; arrays are made on use, so that each call has its own."""

    def __init__(self, xp: Any) -> None:
        super().__init__(xp=xp, nan=np.nan, inf=np.inf, f=_first, **_TYPES)
        self.lines = dict(line.split(" = ") for line in ARRAYS.strip().splitlines())

    def __missing__(self, name: str) -> Any:
        if name not in self.lines:
            raise KeyError(name)
        made = np.array(eval(self.lines[name], dict(_TYPES)))
        self[name] = made if self["xp"] is np else vnp.asarray(made)
        return self[name]


def _first(*args: Any) -> Any:
    return args[0]


class Endless(Exception):
    """A call took longer than the limit."""


def _end(*_: Any) -> None:
    """Ends a call; again after a second, as a finalizer may have caught the first exception."""
    signal.alarm(1)
    raise Endless(f"no result within {_LIMIT_S} s")


class Outcome(NamedTuple):
    """What a call did: it returned a value, or raised an error."""

    value: Any = None
    error: BaseException | None = None
    is_deprecated: bool = False


def outcome(xp: Any, text: str) -> Outcome:
    """Makes a call; the value has the arrays that it writes, too."""
    names = Names(xp)
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        signal.signal(signal.SIGALRM, _end)
        signal.alarm(_LIMIT_S)
        try:
            result = eval(f"xp.{text}", {}, names)
            written = [names[name] for name in ("out", "o", "io") if name in names]
            value = [plain(item) for item in (result, *written)]
        except Exception as error:
            return Outcome(error=error)
        finally:
            signal.alarm(0)
    return Outcome(value, None, any(issubclass(item.category, DeprecationWarning) for item in seen))


def plain(value: Any) -> Any:
    """Returns a result with NumPy's arrays in place of ours, and lists in place of tuples."""
    if isinstance(value, vc.Array):
        return value.numpy()
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return np.asarray(value) if isinstance(value, (bool, int, float, complex, np.generic)) else value


def is_alike(one: Any, other: Any, *, only_shapes: bool) -> bool:
    """True if results have the same shapes and kinds of numbers, and nearly the same values."""
    if isinstance(one, list) or isinstance(other, list):
        pairs = list(zip(one, other, strict=False)) if isinstance(one, list) and isinstance(other, list) else []
        return (
            isinstance(one, list)
            and isinstance(other, list)
            and len(one) == len(other)
            and all(is_alike(*pair, only_shapes=only_shapes) for pair in pairs)
        )
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return type(one) is type(other)
    kinds = {one.dtype.kind, other.dtype.kind}
    if one.shape != other.shape or (len(kinds) == 2 and kinds != {"i", "u"}):
        return False
    return only_shapes or bool(np.allclose(one, other, 1e-3, 1e-4, equal_nan=True))


def outcome_of_numpy(case: Case) -> Outcome:
    """Makes a call of NumPy, whose generators read the memory of an `out` that is no array, and so end the process."""
    if case.function.startswith("random.") and "out" in case.parameters and "out=None" not in case.text:
        return Outcome(error=TypeError("out is an array"))
    return outcome(np, case.text)


def is_named(function: str, text: str) -> bool:
    """True if an error begins with the name of a function, or of the one that it is another name of."""
    path, _, name = function.rpartition(".")
    target: Any = vnp.random.Generator if path == "random" and hasattr(vnp.random.Generator, name) else vnp
    for word in (name if target is not vnp else function).split("."):
        target = getattr(target, word)
    is_method = name in ("reduce", "accumulate", "reduceat", "outer", "at") and path not in ("linalg", "")
    names = {function} if is_method else {function, name, f"Generator.{name}", target.__name__}
    if re.match(r"index .* is out of bounds", text):  # raised where the result is read
        return True
    first = re.match(r"[\w.]+", text)
    return first is not None and first[0] in names


def judged(case: Case) -> str:
    """Returns "alike", "refused", or one of `WRONG`."""
    wanted, result = outcome_of_numpy(case), outcome(vnp, case.text)
    if result.error is not None:
        is_plain = isinstance(result.error, EXPECTED) and str(result.error) and "\n" not in str(result.error)
        is_users = traceback.extract_tb(result.error.__traceback__)[-1].name == _first.__name__
        keeps_text = is_users or isinstance(result.error, vc.VkComputeError) or "UFunc" in type(result.error).__name__
        if is_plain and not keeps_text and not is_named(case.function, str(result.error)):
            return "unnamed"
        return "internal" if not is_plain else "alike" if wanted.error is not None else "refused"
    if wanted.is_deprecated or not _is_numeric(wanted.value):
        return "alike"
    if wanted.error is not None:  # lists where NumPy takes arrays; its ints have limits; it has fewer parameters
        takes_more = isinstance(wanted.error, AttributeError) or "10**30" in case.text
        return "alike" if takes_more or "unexpected keyword" in str(wanted.error) else "accepted"
    is_drawn = case.function.startswith(("random.", "empty", "partition", "argpartition"))
    return "alike" if is_alike(wanted.value, result.value, only_shapes=is_drawn) else "different"


def is_allowed(case: Case) -> bool:
    """True if the table of exceptions has the function, or one of the odd parameters."""
    names = (*case.parameters, case.function, *[f"{case.function}.{name}" for name in case.parameters])
    return any(name in ALLOWED for name in names)


def _is_numeric(value: Any) -> bool:
    """True unless NumPy made objects or texts of a value."""
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    return not isinstance(value, np.ndarray) or value.dtype.kind in "biufc"


def parameters_of(call: ast.Call, function: str) -> list[str]:
    """Returns the names of the arguments of a call, and of the function's further parameters."""
    try:
        target = eval(f"xp.{function}", {"xp": vnp})
        known = [
            parameter for parameter in inspect.signature(target).parameters.values() if parameter.kind not in (2, 4)
        ]
    except (TypeError, ValueError):
        known = []
    named = [keyword.arg for keyword in call.keywords if keyword.arg]
    places = [str(at) for at in range(len(call.args))]
    further = [item.name for item in known[len(places) :] if item.kind != item.POSITIONAL_ONLY]
    return [*places, *named, *[name for name in further if name not in (*named, "device", "like", *_OUR_OWN)]]


def replaced(call: ast.Call, odd: dict[str, str]) -> str:
    """Returns the text of a call with other arguments."""
    args = [odd.get(str(at), ast.unparse(arg)) for at, arg in enumerate(call.args)]
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}
    named.update({name: text for name, text in odd.items() if not name.isdigit()})
    return f"{ast.unparse(call.func)}({', '.join([*args, *[f'{name}={text}' for name, text in named.items()]])})"


def cases(n_pairs: int, seed: int, only: set[str]) -> Iterator[Case]:
    """Yields the calls with one odd argument, then those with two."""
    rng, calls = random.Random(seed), []
    for line in CALLS.strip().splitlines():
        call = ast.parse(line, mode="eval").body
        assert isinstance(call, ast.Call)
        function = ast.unparse(call.func).replace("default_rng(0).", "")
        if only and function not in only:
            continue
        names = parameters_of(call, ast.unparse(call.func))
        calls.append((call, function, names))
        for name in names:
            for text in ODD:
                yield Case(function, (name,), replaced(call, {name: text}))
    for _ in range(n_pairs if calls else 0):
        call, function, names = rng.choice(calls)
        chosen = rng.sample(names, min(2, len(names)))
        yield Case(function, tuple(chosen), replaced(call, {name: rng.choice(ODD) for name in chosen}))


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="functions, divided by commas")
    parser.add_argument("--pairs", type=int, default=0, help="calls with two odd arguments")
    parser.add_argument("--seed", type=int, default=0, help="of the pairs")
    parser.add_argument("--all", action="store_true", help="print every call that fails, not the first of a kind")
    parser.add_argument("--refused", action="store_true", help="print also what NumPy takes and is refused")
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--progress", type=Path, help="run here, and write the number of each call to this file")
    return parser.parse_args(arguments)


def main() -> int:
    """Makes the calls in child processes, each after the call that ended the one before; prints those that fail."""
    options = options_of(sys.argv[1:])
    if options.progress is not None:
        return _run(options)
    first, status = options.first, 0
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "call"
        while True:
            argv = [sys.executable, __file__, *sys.argv[1:], f"--first={first}", f"--progress={progress}"]
            code = subprocess.run(argv, check=False).returncode
            if code in (0, 1):
                return status or code
            number, text = progress.read_text().split(" ", 1)
            print(f"ended the process with {code}: {text}", flush=True)
            first, status = int(number) + 1, 1


def _run(options: argparse.Namespace) -> int:
    """Makes the calls, and prints those that fail."""
    counts: Counter[str] = Counter()
    shown: set[tuple[Any, ...]] = set()
    for number, case in enumerate(cases(options.pairs, options.seed, {*options.only.split(",")} - {""})):
        if number < options.first:
            continue
        options.progress.write_text(f"{number} {case.text}")
        verdict = judged(case)
        if is_allowed(case):
            verdict = "allowed" if verdict in ("accepted", "different") else verdict
        counts[verdict] += 1
        key = verdict, case.function, case.parameters
        is_wrong = verdict in WRONG or (options.refused and verdict == "refused")
        if is_wrong and (options.all or key not in shown):
            shown.add(key)
            wanted, result = outcome_of_numpy(case), outcome(vnp, case.text)
            print(f"{verdict}: {case.text}\n    NumPy: {_line(wanted)}\n    here:  {_line(result)}", flush=True)
    print(", ".join(f"{n:,} {verdict}" for verdict, n in sorted(counts.items())))
    return int(any(counts[item] for item in WRONG))


def _line(outcome: Outcome) -> str:
    """Returns an outcome as a short line."""
    text = repr(outcome.value[0]) if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}"
    return " ".join(text.split())[:160]


if __name__ == "__main__":
    sys.exit(main())
