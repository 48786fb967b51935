"""`vkcompute multiply`: the elementwise product of two .npy files of any size."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import time

from vkcompute.cli import interruption, terminal
from vkcompute.cli.options import Commands, Parser, byte_count, check_output


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = """Multiplies two arrays in .npy files element by element, or an array by a number. Files are streamed, and
    may be larger than the memory of host and device. GB/s counts bytes read and written."""
    parser: Parser = commands.add_parser("multiply", help="multiply two .npy files", description=text)
    parser.add_argument("a", metavar="A.npy", help="a file, or a number")
    parser.add_argument("b", metavar="B.npy", help="a file of the same shape and dtype, or a number")
    parser.add_argument("-o", "--output", metavar="C.npy", required=True, help="where to write the product")
    parser.add_argument(
        "--chunk-bytes", type=byte_count, metavar="N", help="bytes of each array per chunk (default: 8M)"
    )
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        DataError: a file is damaged or not a .npy file.
        ValueError, TypeError: shapes or dtypes do not match, or the output cannot be written.
    """
    a, b = _operand(args.a), _operand(args.b)
    if not isinstance(a, str) and not isinstance(b, str):
        raise ValueError(f"{args.a} and {args.b} are both numbers; one of them must be a file")
    check_output(args.output)

    from vkcompute.pipelines.multiply_files import multiply_files
    from vkcompute.runtime.runtime import Runtime

    options = {} if args.chunk_bytes is None else {"chunk_bytes": args.chunk_bytes}
    progress_bar = interruption.progress_bar("multiply", unit="B", quiet=args.quiet)
    with Runtime(args.device) as runtime, progress_bar as update:
        start = time.perf_counter()
        result = multiply_files(a, b, args.output, runtime=runtime, progress=update, **options)
        seconds = time.perf_counter() - start
        device = runtime.device.name
    if not args.quiet:
        n_arrays = 3 if isinstance(a, str) and isinstance(b, str) else 2
        rate = n_arrays * result.nbytes / max(seconds, 1e-9) / 1e9
        shape = " x ".join(map(str, result.shape)) or "scalar"
        line = f"{shape} {result.dtype} in {seconds:.3g} s, {rate:.3g} GB/s, on {device}"
        terminal.write(terminal.truncate(line, terminal.width()))
    return 0


def _operand(text: str) -> str | int | float:
    """A number if the text is one and no such file exists, else a path. Raises ValueError if it exceeds float64."""
    if os.path.exists(text):
        return text
    with contextlib.suppress(ValueError):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f"{text[:40]} exceeds the largest number, {sys.float_info.max:g}")
    return value
