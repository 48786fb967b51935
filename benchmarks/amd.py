"""Kernels as AMD's compiler compiles them: its statistics, compared with those on record.

No AMD GPU is needed, only Mesa's driver radv. Exits with 1 if a figure differs; --write records the new ones. Figures
of another version of Mesa are not compared. --assembly shows one kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]  # compiles this checkout

import numpy as np  # noqa: E402
import triton_attention  # noqa: E402
import triton_dropout  # noqa: E402
import triton_layer_norm  # noqa: E402
import triton_matmul  # noqa: E402
import triton_softmax  # noqa: E402
from workloads import logreg_kernels, n_body, workloads  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.compat.triton as triton  # noqa: E402
import vkcompute.compat.triton.language as tl  # noqa: E402
from vkcompute import tile  # noqa: E402
from vkcompute.arrays.algorithms import (  # noqa: E402
    direct_tables,
    equal_rows,
    leading,
    nearest,
    radix_tiles,
    ragged,
    scans,
)
from vkcompute.arrays.algorithms.lines import LOCAL_SIZE  # noqa: E402
from vkcompute.arrays.algorithms.programs import distances  # noqa: E402
from vkcompute.arrays.algorithms.programs.matrices import product  # noqa: E402
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType  # noqa: E402
from vkcompute.blocks.launching.build import specialize as specialize_block  # noqa: E402
from vkcompute.blocks.launching.program import JITFunction  # noqa: E402
from vkcompute.compiled.arguments import kind_of_array, kind_of_number  # noqa: E402
from vkcompute.compiled.block_access import SINGLE  # noqa: E402
from vkcompute.compiled.blocks import wide  # noqa: E402
from vkcompute.compiled.specialization import CompileOptions  # noqa: E402
from vkcompute.core.device_profile import DeviceProfile  # noqa: E402
from vkcompute.dtypes import TABLE  # noqa: E402
from vkcompute.frontend.source import definition_of  # noqa: E402
from vkcompute.ir import FLOAT32, FLOAT64, Target  # noqa: E402
from vkcompute.jit.compilation.build import specialize as specialize_kernel  # noqa: E402
from vkcompute.jit.elementwise.reduction_methods import BLOCKS  # noqa: E402
from vkcompute.jit.elementwise.stages import StagePattern  # noqa: E402
from vkcompute.nn import block_attention  # noqa: E402
from vkcompute.nn.programs import lines  # noqa: E402
from vkcompute.nn.programs.products import convolution, linear  # noqa: E402
from vkcompute.operations.recording import recorded  # noqa: E402
from vkcompute.runtime.launching.imitated_gpu import Compilation, Shader  # noqa: E402
from vkcompute.runtime.launching.radv import compile_for  # noqa: E402
from vkcompute.runtime.tuning import ON_GPU, ON_INTEL, Tuning  # noqa: E402

_OPTIONS = CompileOptions(target=Target(keeps_loop_results=True, preserved_floats=(16, 32, 64)))
_SUBGROUPS = 0xFF
"""All of Vulkan's subgroup operations, as bits."""
FAMILIES = "vega10", "navi10", "navi21"
RECORD = HERE / "results" / "amd.json"
FIGURES = (
    "registers",
    "spills",
    "occupancy",
    "shared_nbytes",
    "scratch_nbytes",
    "instructions",
    "latency",
    "busy_cycles",
)
Table = dict[str, dict[str, dict[str, Any]]]
"""Family -> kernel -> figure -> value."""


class Vendor(NamedTuple):
    """The GPUs of a vendor, as kernels are compiled for them.

    Attributes:
        tuning, target: of their devices.
        options: of kernels.
    """

    tuning: Tuning
    target: tile.Target
    options: CompileOptions = _OPTIONS

    def like(self, profile: DeviceProfile) -> Vendor:
        """Returns the vendor's GPUs with what the device of a profile has, and no more."""
        limits = profile.limits
        preserved = [n for n in (16, 32, 64) if limits[f"shaderSignedZeroInfNanPreserveFloat{n}"]]
        target = replace(
            self.options.target,
            preserved_floats=(*preserved,),
            max_storage_buffers=limits["maxPerStageDescriptorStorageBuffers"],
            max_invocations=limits["maxComputeWorkGroupInvocations"],
            missing_types=tuple([row.name for row in TABLE if not profile.lacks.isdisjoint(row.native)]),
        )
        shuffles = limits["requiredSubgroupSizeStages"] and limits["subgroupSupportedOperations"] == _SUBGROUPS
        blocks = self.target._replace(
            subgroup_size=self.target.subgroup_size if shuffles else 1,
            max_invocations=min(self.target.max_invocations, target.max_invocations or 0),
            shared_nbytes=limits["maxComputeSharedMemorySize"],
            overlays="workgroupMemoryExplicitLayout" not in profile.lacks,
        )
        return Vendor(self.tuning, blocks, self.options._replace(target=target))

    @property
    def product_tile(self) -> dict[str, Any]:
        """The block of a product of large matrices."""
        columns = self.tuning.product_columns
        rows, terms = self.tuning.product_sums // columns, self.tuning.product_terms
        return {"ROWS": rows, "COLUMNS": columns, "STEP": terms, "ALIGNED": True, "TURNED": False}


AMD = Vendor(
    ON_GPU,
    tile.Target(subgroup_size=64, max_invocations=1024, shared_nbytes=65536, overlays=True, stages=True),
)
INTEL = Vendor(ON_INTEL, AMD.target._replace(subgroup_size=8, max_invocations=512, sums=ON_INTEL.sums))

# Functions of contiguous arrays, and the dtypes of these.
ELEMENTWISE: tuple[tuple[str, str], ...] = (
    *(("x + y", f"{name} {name}") for name in ("float32", "int32", "float64", "int64", "float16", "int16", "uint8")),
    ("x * y", "uint8 float32"),
    ("x > y", "float32 float32"),
    ("a * x * x + b * y - z / (x + 1)", "float32 float32 float32 float32 float32"),
    ("exp(x)", "float32"),
    ("sin(x) * y", "float32 float32"),
    ("x ** y", "float32 float32"),
    ("x // y", "int32 int32"),
    ("x % y", "float32 float32"),
)
REDUCTIONS = ("a + b", "float32"), ("a + b", "float64"), ("a + b", "uint8"), ("max(a, b)", "int32")


def shaders(vendor: Vendor = AMD) -> Iterator[Shader]:
    """Yields all kernels of the table, as a vendor's GPUs get them."""
    for path in sorted((HERE.parent / "vkcompute" / "_spv").glob("*.spv")):
        yield Shader(f"wheel: {path.stem}", path.read_bytes(), {0: 256} if path.stem.startswith("multiply") else {})
    for path in sorted((HERE / "shaders").glob("*.comp")):
        yield Shader(f"GLSL: {path.stem}", vc.glsl(path, optimize=True))
    yield from kernels(vendor)


def kernels(vendor: Vendor) -> Iterator[Shader]:
    """Yields the kernels that are compiled for a device, other than those in GLSL."""
    options, most = vendor.options, vendor.target.max_invocations
    works = [(work.kernel, [*work.arrays, *work.numbers], work.local) for work in workloads(full=False)]
    vectors = [np.zeros((3, 8), np.float32)] * 2
    works += [(n_body.drift, [*vectors, 0.01], None), (logreg_kernels.descend, [vectors[0], vectors[0][0], 0.1], None)]
    for fast_math in (False, True):
        yield from [_python(*work, options._replace(fast_math=fast_math)) for work in works]
    yield from [elementwise(options, expression, dtypes.split()) for expression, dtypes in ELEMENTWISE]
    yield elementwise(options, "x + y", ["float32", "float32"], ((True, True), (False, True)))
    yield from [_reduction(options, expression, dtype) for expression, dtype in REDUCTIONS]
    if most >= radix_tiles.INVOCATIONS:
        yield from radix_sorts(options)
        yield from tables_and_selections(vendor)
    yield from block_programs(vendor)
    yield matrix_product(vendor)
    yield from functions_of_networks(vendor)


def block_programs(vendor: Vendor) -> Iterator[Shader]:
    """Yields programs of Triton's tutorials, sorts and scans, for the number of warps of the default."""
    block = partial(_block, vendor)
    yield block("softmax_kernel", triton_softmax.softmax_kernel, [*_floats(2), _INT, _INT], BLOCK_SIZE=1024)
    yield block("block_add", block_add, [*_floats(3), _INT], BLOCK=1024)
    yield block("dropout", triton_dropout.dropout_kernel, [*_floats(2), _INT, float, _ODD], BLOCK_SIZE=1024)
    layer_norm = triton_layer_norm.forward_kernel
    yield block("layer norm", layer_norm, [*_floats(6), _INT, float], BLOCK_SIZE=1024)
    for dtype in ("float32", "float16"):
        yield block(f"matmul, {dtype}", triton_matmul.matmul_kernel, [*_floats(3, dtype), *[_INT] * 3], **_MATMUL)
    attention = triton_attention.attention_kernel
    yield block("attention", attention, [*_floats(4), _INT, float, bool], HEAD_DIM=32, BLOCK_M=32, BLOCK_N=32)
    yield block("sort", block_sort, _floats(2), N=1024)
    yield block("cumsum", block_cumsum, [*_floats(2), _INT], N=1024)


@triton.jit
def block_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < n) + tl.load(y_ptr + at, at < n), at < n)


@triton.jit
def block_sort(x_ptr, out_ptr, N: tl.constexpr):  # noqa: ANN001, ANN201
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def block_cumsum(x_ptr, out_ptr, n, N: tl.constexpr):  # noqa: ANN001, ANN201
    columns = tl.arange(0, N)
    at = tl.program_id(0) * n + columns
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at, columns < n, 0.0), 0), columns < n)


_INT, _ODD = IntType("int32", 16), IntType("int32", 1)
# Blocks of 64 x 32 sums spill: the condition of each store takes two scalar registers in subgroups of 64.
_MATMUL = {"BM": 32, "BN": 32, "BK": 16, "GROUP": 4, "ACTIVATION": "leaky_relu"}


def _floats(n: int, dtype: str = "float32") -> list[ArrayType]:
    """Returns the types of arrays as arguments."""
    return [ArrayType(np.dtype(dtype).char, False, True)] * n


def _block(
    vendor: Vendor, name: str, program: triton.JITFunction, signature: Sequence[Any], **constants: Any
) -> Shader:
    """Returns a program whose constants are its last parameters, in their order."""
    values = dict(enumerate(constants.values(), len(signature)))
    options = BlockOptions(4, vendor.target, vendor.options)
    compiled = specialize_block(program.definition, values, dict(enumerate(signature)), options)
    return Shader(f"block: {name}", compiled.spirv, subgroup_size=compiled.subgroup_size)


def _python(kernel: Any, args: Sequence[Any], local: Sequence[int] | None, options: CompileOptions) -> Shader:
    signature = tuple([kind_of_array(arg) if isinstance(arg, np.ndarray) else kind_of_number(arg) for arg in args])
    size = None if local is None else (*local, 1, 1)[:3]
    spirv = specialize_kernel(definition_of(kernel.__wrapped__), signature, options._replace(local_size=size)).spirv
    return Shader(f"Python: {kernel.__name__}{', fast_math' if options.fast_math else ''}", spirv)


def radix_sorts(options: CompileOptions) -> Iterator[Shader]:
    """Yields the kernels of a pass of a radix sort: of words, of numbers of 64 bits, and of words with their order."""
    words, order = np.zeros(1, np.uint32), np.zeros(1, np.int32)
    local = radix_tiles.INVOCATIONS, 1, 1
    for name, width, has_order in (("words", 1, False), ("64 bits", 2, False), ("words with order", 1, True)):
        kernels = radix_tiles.kernels(width, has_order, ON_GPU.radix_own)
        for kernel, args in (
            (kernels.count, [words, order, *[1] * 5]),
            (kernels.move, [words, order, order, words, order, *[1] * 6]),
        ):
            shader = _python(kernel, args, local, options)
            yield shader._replace(name=f"radix sort: {kernel.__name__}, {name}")


def tables_and_selections(vendor: Vendor) -> Iterator[Shader]:
    """Yields the kernels of groups of rows, of the first elements of rows, of ragged scans and of nearest points."""
    words, order, floats = np.zeros(1, np.uint32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    wide = np.zeros(1, np.int64)
    held, scan, ragged_scan = leading._first_held(8, False), scans._kernels("sum"), ragged._kernels("sum")
    for kernel, args in (
        (equal_rows._insert, [words, order, order, *[1] * 6]),
        (equal_rows._look_up, [words, order, order, *[1] * 7]),
        (direct_tables._enter, [wide, wide, order, 1]),
        (direct_tables._read, [wide, wide, order, order, 1]),
        (held, [words, words, order, words, words, order, *[1] * 6]),
        (scan.total, [floats, floats, *[1] * 5]),
        (scan.scan, [floats, floats, floats, *[1] * 6]),
        (ragged_scan.total, [floats, order, floats, order, *[1] * 3]),
        (ragged_scan.scan, [floats, order, floats, order, floats, *[1] * 3]),
        (nearest._distances_in_chunks, [floats, floats, order, floats, *[1] * 5]),
    ):
        shader = _python(kernel, args, (LOCAL_SIZE, 1, 1), vendor.options)
        yield shader._replace(name=f"algorithms: {kernel.__name__.strip('_')}")
    for program in (distances.nearest_in_parts, distances.nearest_of_few, distances.least_of_chunks):
        block = {"ODD": 0, "ROWS": nearest._QUERIES, "CHUNKS": nearest._CHUNKS}
        if program is distances.nearest_of_few:
            block = {"ODD": 0, "QUERIES": nearest._SQUARE, "POINTS": nearest._SQUARE}
        yield _library(vendor, f"algorithms: {program.definition.name}", program, block)


def elementwise(
    options: CompileOptions, expression: str, dtypes: Sequence[str], masks: Sequence[tuple[bool, ...]] | None = None
) -> Shader:
    """Returns a function of arrays as a GPU gets it; masks are those of broadcasting.py."""
    function = vc.elementwise(expression)
    signature = tuple([(np.dtype(name).char, 1) for name in dtypes])
    block = SINGLE if masks else wide([np.dtype(name).itemsize for name in dtypes])
    key = signature, masks or ((True,),) * len(dtypes), (), (), block, options
    spirv = function._launch._programs.specialized(*key).spirv
    return Shader(f"elementwise: {expression}, {', '.join(dtypes)}{', broadcast' if masks else ''}", spirv)


def _reduction(options: CompileOptions, expression: str, dtype: str) -> Shader:
    """Returns the last stage of a reduction of a row, by workgroups."""
    key = FLOAT64 if dtype == "float64" else FLOAT32, None, ((np.dtype(dtype).char, 1),), ((True,),)
    form = StagePattern("cooperative", BLOCKS, True, wide([np.dtype(dtype).itemsize]))
    spirv = vc.reduce(expression, 0)._launch._first.specialized(*key, form, None, options).spirv
    return Shader(f"reduce: {expression}, {dtype}", spirv)


def matrix_product(vendor: Vendor = AMD) -> Shader:
    """Returns the block program of the product of large float32 matrices."""
    return _library(vendor, "blocks: matrix product, float32", product, vendor.product_tile)


def functions_of_networks(vendor: Vendor) -> Iterator[Shader]:
    """Yields programs on lines of 1,024 and 1,000 elements, a layer, a convolution and attention."""
    library = partial(_library, vendor)
    block: dict[str, Any] = {"ROWS": 1, "LENGTH": 1024, "COLUMNS": 1, "WHOLE": True, "ALIGNED": True}
    columns, normal = {"LENGTH": 64, "COLUMNS": 64}, {"EPS": 1e-5, "REPEATS": 1}
    alone = dict.fromkeys(("weight_ptr", "bias_ptr"))
    yield library("nn: softmax", lines.softmax, block)
    yield library("nn: softmax of cut lines", lines.softmax, block | {"WHOLE": False, "ALIGNED": False})
    yield library("nn: softmax along columns", lines.softmax, block | columns)
    yield library("nn: log_softmax", lines.log_softmax, block)
    yield library("nn: logsumexp", lines.logsumexp, block)
    yield library("nn: layer_norm", lines.layer_norm, block | normal)
    yield library("nn: layer_norm alone", lines.layer_norm, block | normal | alone)
    yield library("nn: rms_norm", lines.rms_norm, block | normal)
    yield library("nn: linear", linear, vendor.product_tile | {"ACTIVATION": recorded("gelu"), "SCALE": 1.0})
    yield library("nn: convolution", convolution, vendor.product_tile | {"ACTIVATION": recorded("relu")})
    given: dict[str, Any] = {"mask_ptr": None, "SCALE": 0.125, "CAUSAL": False, "HALVES": False}
    given |= dict.fromkeys(("WHOLE_KEYS", "WHOLE_SIZE", "WHOLE_V_SIZE"), True)
    for size, (rows, keys) in block_attention.LENGTHS.items():
        lengths = {"ROWS": rows, "KEYS": keys, "SIZE": size, "V_SIZE": size}
        yield library(f"nn: attention of {size}", block_attention.attention, given | lengths)


def _library(vendor: Vendor, name: str, program: JITFunction, constants: Mapping[str, Any]) -> Shader:
    """Returns a program of the library, with arrays of float32 that wide accesses fit."""
    values = {at: constants[each] for at, each in enumerate(program.arg_names) if each in constants}
    others = [(at, each) for at, each in enumerate(program.arg_names) if at not in values]
    signature = {at: _floats(1)[0] if item.endswith("_ptr") else _ODD for at, item in others}
    compiled = specialize_block(program.definition, values, signature, BlockOptions(4, vendor.target, vendor.options))
    return Shader(name, compiled.spirv, subgroup_size=compiled.subgroup_size)


def table() -> tuple[str, Table, dict[str, dict[str, Compilation]]]:
    """Compiles everything, in one process per family; returns the driver's version, the figures and all else."""
    given = list(shaders())
    with ThreadPoolExecutor() as pool:
        rows = dict(zip(FAMILIES, pool.map(lambda family: compile_for(family, given), FAMILIES), strict=True))
    results = {
        family: {shader.name: item for shader, item in zip(given, row, strict=True)} for family, row in rows.items()
    }
    figures = {
        family: {name: {figure: getattr(item.statistics, figure) for figure in FIGURES} for name, item in row.items()}
        for family, row in results.items()
    }
    return rows[FAMILIES[0]][0].statistics.driver, figures, results


def changes(before: Table, after: Table) -> list[str]:
    """Returns a line per figure that differs, per kernel that is new, and per kernel that is gone."""
    results = []
    for family, rows in after.items():
        recorded = before.get(family, {})
        results += [f"{family}: {name}: gone" for name in recorded if name not in rows]
        for name, figures in rows.items():
            if name not in recorded:
                results.append(f"{family}: {name}: new")
            results += [
                f"{family}: {name}: {figure} {recorded[name].get(figure)} -> {value}"
                for figure, value in figures.items()
                if name in recorded and recorded[name].get(figure) != value
            ]
    return results


def text(driver: str, figures: Table) -> str:
    """Returns the record: JSON with a line per kernel, so that a difference is one, too."""
    families = [
        f"  {json.dumps(family)}: {{\n"
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
        + "\n  }"
        for family, rows in figures.items()
    ]
    return f'{{\n "driver": {json.dumps(driver)},\n "figures": {{\n' + ",\n".join(families) + "\n }\n}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Compares, records or shows; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("\n", " "))
    parser.add_argument("--write", action="store_true", help=f"record the figures in {RECORD.name}")
    parser.add_argument("--assembly", metavar="KERNEL", help="show the kernels whose names contain this, for navi21")
    arguments = parser.parse_args(argv)
    if arguments.assembly:
        wanted = [shader for shader in shaders() if arguments.assembly in shader.name]
        for shader, result in zip(wanted, compile_for(FAMILIES[-1], wanted), strict=True):
            print(f"{shader.name} on {result.statistics}\n{result.assembly}")
        return 0
    driver, figures, _ = table()
    if arguments.write:
        RECORD.write_text(text(driver, figures))
        print(f"{RECORD}: {sum(map(len, figures.values()))} rows of {driver}")
        return 0
    recorded = json.loads(RECORD.read_text())
    if recorded["driver"] != driver:
        print(f"the record is of {recorded['driver']}, the compiler {driver}: figures are not compared")
        return 0
    result = changes(recorded["figures"], figures)
    print("\n".join(result) or f"all figures of {driver} are as recorded")
    return 1 if result else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except vc.VkComputeError as error:
        sys.exit(str(error))
