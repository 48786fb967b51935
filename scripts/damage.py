"""Feeds damaged files to their readers: .npy files, archives, tables, models and cache entries.

python scripts/damage.py --count 100000 --only npy,csv

Each input is made from a whole file by a seed: bits are flipped, bytes removed, inserted, repeated or taken from
another file, numbers replaced by extreme ones. Its reader must return what an independent reader finds, or raise an
error of the library, of one line and with the file's name. Readers run in child processes: a crash, or an input that
takes ten seconds, is reported with its seed. The status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402

from vkcompute import disk, dtypes  # noqa: E402
from vkcompute.cli import table  # noqa: E402
from vkcompute.compiled import cache  # noqa: E402
from vkcompute.errors import DataError  # noqa: E402
from vkcompute.jit.compilation.fingerprint import PythonOrigin  # noqa: E402
from vkcompute.pipelines.logistic_regression import LogisticRegression  # noqa: E402
from vkcompute.pipelines.npy_file import NpyFile  # noqa: E402

_BATCH = 5000  # inputs per child process
_LIMIT_S = 10
_MAX_SHOWN = 10
_NUMBERS = b"0 1 -1 00 255 256 65535 2147483648 4294967296 9223372036854775807 18446744073709551616 1e999 nan".split()
_BYTES = b"\0 \xff \n \r \" , ; \t ( ) { } [ ] ' # \\ = False None < > | - + . e PK \x93NUMPY".split(b" ")


class Wrong(Exception):
    """A reader accepted an input, and returned something else than the file has."""


def damaged(seed: int, originals: Sequence[bytes]) -> bytes:
    """One of the originals with one to four changes."""
    rng = random.Random(seed)
    content = bytearray(rng.choice(originals))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice(_CHANGES)(rng, content, originals)
    return bytes(content)


def _at(rng: random.Random, content: bytearray) -> int:
    """A position; the beginning and the end, where headers are, are more likely."""
    near = min(len(content), 130)
    return rng.choice((rng.randint(0, near), rng.randint(0, len(content)), len(content) - rng.randint(0, near)))


def _flip(rng: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    for _bit in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[min(_at(rng, content), len(content) - 1)] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    del content[_at(rng, content) :]


def _remove(rng: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    start = _at(rng, content)
    del content[start : start + rng.choice((1, 2, 7, 60))]


def _insert(rng: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    start = _at(rng, content)
    content[start:start] = rng.choice((rng.randbytes(rng.randint(1, 9)), rng.choice(_BYTES) * rng.choice((1, 3, 3000))))


def _splice(rng: random.Random, content: bytearray, originals: Sequence[bytes]) -> None:
    other = rng.choice(originals)
    start = rng.randint(0, len(other))
    part = other[start : start + rng.choice((3, 40, 4000))]
    start = _at(rng, content)
    content[start : start + rng.choice((0, len(part)))] = part


def _renumber(rng: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    numbers = list(re.finditer(rb"\d+", content))
    if numbers:
        start, stop = rng.choice(numbers).span()
        content[start:stop] = rng.choice((*_NUMBERS, b"9" * 5000))


_CHANGES = (_flip, _flip, _truncate, _remove, _insert, _splice, _renumber, _renumber)


def _npy_originals() -> list[bytes]:
    shapes: list[tuple[int, ...]] = [(), (1,), (7,), (3, 4), (2, 0), (2, 3, 4), (1000,)]
    arrays: list[Any] = [np.arange(np.prod(shape)).reshape(shape).astype(name) for shape in shapes for name in "fq?"]
    arrays += [arrays[9].T.copy("F"), np.ones(3, ">f4"), np.ones(2, "M8[s]"), np.array(["a"]), np.ones(2, "i4,f8")]
    saved = [_saved(np.save, array) for array in arrays]
    later = (saved[9][:6] + bytes([version, 0]) + saved[9][8:10] + bytes(2) + saved[9][10:] for version in (2, 3))
    return [*saved, *later]


def _saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def _read_npy(path: Path, _: random.Random, content: bytes) -> None:
    path.write_bytes(content)
    with disk.open_regular(path) as file:
        stored = NpyFile.read(file, path)
        _allowed(path, dtypes.lookup, stored.dtype)
        result = stored[(slice(None),) * stored.ndim]
    if content[6:7] == b"\3":  # numpy reads headers of version 3 with fewer blanks; the rest is that of version 2
        path.write_bytes(content[:6] + b"\2" + content[7:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers as of Python 2
        want = np.load(path, allow_pickle=False)
    if (result.dtype, result.shape, result.tobytes()) != (want.dtype, want.shape, want.tobytes()):
        raise Wrong(f"{result!r} for {want!r}")


def _allowed(path: Path, check: Callable[..., object], *arguments: Any) -> None:
    """Calls a check whose TypeError is no failure, as `multiply_files` puts the file's name before it."""
    try:
        check(*arguments)
    except TypeError as error:
        raise DataError(f"{path}: {error}") from None


def _npz_originals() -> list[bytes]:
    arrays = {"a": np.arange(20.0), "b": np.ones((3, 4), np.int8)}
    return [_saved(np.savez, **arrays), _saved(np.savez_compressed, **arrays), *_model_originals()[:1]]


def _read_npz(path: Path, rng: random.Random, content: bytes) -> None:
    (_read_npy if rng.random() < 0.5 else _read_model)(path, rng, content)


def _csv_originals() -> list[bytes]:
    rng = random.Random(0)
    rows = [[rng.gauss(0, 1), f'no{i}, "{i}"\n', 10.0**i, rng.choice(("yes", "no"))] for i in range(-5, 6)]
    texts = []
    for delimiter in ",;\t":
        stream = io.StringIO()
        csv.writer(stream, delimiter=delimiter).writerows([["a", "note", "b", "t"], *rows])
        texts += [stream.getvalue(), stream.getvalue().replace("yes", "01").replace('t"', "1")]
    texts += ["a,note,b,t\n" + "".join(f"{i},,{-i}.5,{i % 2}\n" for i in range(20)), "a,note,b,t\r1,2,3,4\r5,6,7,8"]
    return [text.encode() for text in texts]


def _read_csv(path: Path, _: random.Random, content: bytes) -> None:
    path.write_bytes(content)
    result = table.read(str(path), names=["a", "b"], target="t")
    text = content.decode("utf-8-sig")
    for delimiter in ",;\t":
        with contextlib.suppress(csv.Error, ValueError):
            lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
            head, *rows = [row for row in lines if row and (len(row) > 1 or row[0].strip())]
            a, b, t = (list(map(str.strip, head)).index(name) for name in "abt")
            numbers = [[float(row[a]), float(row[b])] for row in rows]
            labels = [row[t].strip() for row in rows]
            read_labels = [] if result.labels is None else result.labels.tolist()
            whole = all(len(row) == len(head) for row in rows)
            if whole and (list(map(str, read_labels)), result.numbers.tolist()) == (labels, numbers):
                return
    raise Wrong(f"{result.numbers.tolist()[:3]!r}… and {result.labels!r}")


def _model_originals() -> list[bytes]:
    results = []
    for classes in ([0, 1], ["no", "yes"], [-1.5, 2.5]):
        model = LogisticRegression(alpha=0.5, tol=None)
        model.coef_, model.intercept_ = np.array([[0.5, -1.25, np.pi]]), np.array([0.1])
        model.classes_, model.loss_curve_ = np.array(classes), np.array([0.7, 0.6])
        model.n_iter_, model.n_features_in_ = np.array([2]), 3
        if classes == ["no", "yes"]:
            model.feature_names_in_ = np.array(["x", "y", ""], object)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder, "m"))
            results.append(Path(folder, "m").read_bytes())
    return results


def _read_model(path: Path, rng: random.Random, content: bytes) -> None:
    """Reads a damaged archive, or, with a valid checksum, a whole archive with a damaged member."""
    originals = _model_originals.known  # type: ignore[attr-defined]
    rebuilt = rng.random() < 0.5
    path.write_bytes(_with_damaged_member(rng, rng.choice(originals)) if rebuilt else content)
    model = LogisticRegression.load(path)
    if rebuilt:
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
        labels = model.predict(np.zeros((2, model.n_features_in_)))
        if labels[0] not in model.classes_.tolist():
            raise Wrong(f"{labels!r} of {model.classes_!r}")
    elif _state(model) not in [_state(LogisticRegression.load(_written(path, original))) for original in originals]:
        raise Wrong(repr(_state(model)))


def _with_damaged_member(rng: random.Random, original: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(original)) as old, zipfile.ZipFile(stream, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        chosen = rng.choice(list(members))
        for name, content in members.items():
            new.writestr(name, damaged(rng.getrandbits(48), [content]) if name == chosen else content)
    return stream.getvalue()


def _state(model: LogisticRegression) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in vars(model).items())


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _cache_originals() -> list[bytes]:
    fields = {"iterations": [], "sites": [["f.py", 1, "text"]], "pushes": [[0, 1]], "local_size": [64, 1, 1]}
    contents = [json.dumps((fields, [])).encode() + b"\n" + b"\x03\x02\x23\x07" * 50, b"", bytes(3000)]
    return [disk._header(content) + content for content in contents]


def _read_cache(path: Path, rng: random.Random, content: bytes) -> None:
    """Reads a damaged entry, or, with a valid checksum, a damaged specialization."""
    originals = _cache_originals.known  # type: ignore[attr-defined]
    nbytes = len(disk.MAGIC) + 32
    result: object
    if rng.random() < 0.5:
        path.write_bytes(content)
        result = disk.read_cached(path)
        if result not in (None, *(original[nbytes:] for original in originals)):
            raise Wrong(repr(result))
    else:
        path.write_bytes(disk._header(content[nbytes:]) + content[nbytes:])
        result = cache._load(path, PythonOrigin(()))
    if result is None:
        raise DataError(f"{path} is missing")


@dataclass(frozen=True)
class Kind:
    """A kind of file: whole ones, and the reader, which raises an error or `Wrong`, or is right."""

    originals: Callable[[], list[bytes]]
    read: Callable[[Path, random.Random, bytes], None]


KINDS = {
    "npy": Kind(_npy_originals, _read_npy),
    "npz": Kind(_npz_originals, _read_npz),
    "csv": Kind(_csv_originals, _read_csv),
    "model": Kind(_model_originals, _read_model),
    "cache": Kind(_cache_originals, _read_cache),
}


def run_seeds(kind: str, seeds: range, folder: Path) -> dict[str, Any]:
    """Reads the inputs of the seeds. Returns the numbers of results and errors, and the failures."""
    for each in (_model_originals, _cache_originals):
        each.known = each()  # type: ignore[attr-defined]
    originals = KINDS[kind].originals()
    path, counts, failures = folder / "input", {"read": 0, "refused": 0}, []
    progress = os.open(folder / "seed", os.O_WRONLY | os.O_CREAT)
    for seed in seeds:
        os.pwrite(progress, b"%20d" % seed, 0)
        signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)  # the default action ends the process
        try:
            KINDS[kind].read(path, random.Random(seed), damaged(seed, originals))
            counts["read"] += 1
        except DataError as error:
            counts["refused"] += 1
            if "\n" in str(error) or str(path) not in str(error):
                failures.append((seed, f"no error of one line with the file's name: {error!r}"))
        except Exception as error:
            failures.append((seed, f"{type(error).__name__}: {error}"))
        path.unlink(missing_ok=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(progress)
    return {"counts": counts, "failures": failures}


def in_child(kind: str, seeds: range) -> dict[str, Any]:
    """`run_seeds` in a process of its own. If it dies, its last seed is a failure; others read the rest once more."""
    total: dict[str, Any] = {"counts": {"read": 0, "refused": 0}, "failures": []}
    todo = [seeds]
    while todo:
        part = todo.pop()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
            command = [sys.executable, "-X", "faulthandler", __file__, "--only", kind, "--child", folder]
            options = ["--seed", str(part.start), "--count", str(len(part))]
            done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
            last = int(Path(folder, "seed").read_text()) if Path(folder, "seed").exists() else part.start
        if done.returncode == 0:
            result = json.loads(done.stdout)
            total["failures"] += map(tuple, result["failures"])
            total["failures"] += [(last, f"output: {done.stderr}")] if done.stderr else []
            total["counts"] = {name: n + result["counts"][name] for name, n in total["counts"].items()}
        else:
            total["failures"].append((last, f"status {done.returncode}: {done.stderr[-2000:]}"))
            todo += filter(None, (range(part.start, last), range(last + 1, part.stop)))
    return total


def main() -> int:
    """Runs the kinds. Returns 1 after a failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, with commas (default: %(default)s)")
    parser.add_argument("--count", type=int, default=100_000, help="inputs of each kind (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    if options.child:
        print(json.dumps(run_seeds(options.only, seeds, options.child)))
        return 0
    failed = False
    print(f"{'kind':8}{'inputs':>10}{'read':>10}{'refused':>10}{'failures':>10}{'per second':>12}")
    for kind in options.only.split(","):
        start, batches = time.monotonic(), [seeds[i : i + _BATCH] for i in range(0, len(seeds), _BATCH)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(partial(in_child, kind), batches))
        counts = [sum(result["counts"][name] for result in results) for name in ("read", "refused")]
        failures = [failure for result in results for failure in result["failures"]]
        rate = len(seeds) / (time.monotonic() - start)
        print(f"{kind:8}{len(seeds):10,}{counts[0]:10,}{counts[1]:10,}{len(failures):10,}{rate:12,.0f}", flush=True)
        for seed, text in sorted(failures)[:_MAX_SHOWN]:
            print(f"  --only {kind} --seed {seed} --count 1: {text}")
        failed = failed or bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
