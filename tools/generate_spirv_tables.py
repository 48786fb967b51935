"""Write vkcompute/spirv/opcodes.py and vkcompute/spirv/enums.py from the machine-readable SPIR-V grammar.

    python tools/generate_spirv_tables.py [--grammar /usr/include/spirv/unified1/spirv.core.grammar.json] [--check]

The grammar comes with Debian's spirv-headers and with the Vulkan SDK. What is younger than SPIR-V 1.6 revision 2 stands
in the tables NEWER_* below, so that the output does not depend on which copy of the grammar is installed. `--check`
writes nothing and exits 1 when an output is stale.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

GRAMMAR = Path("/usr/include/spirv/unified1/spirv.core.grammar.json")
PACKAGE = Path(__file__).resolve().parent.parent / "vkcompute" / "spirv"
VENDORS = re.compile(r"(INTEL|NV|NVX|AMD|QCOM|ARM|HUAWEI|GOOGLE)$|(INTEL|ALTERA)")
# One letter per operand kind; vkcompute/spirv/operands.py reads them.
LETTERS = {
    "IdResultType": "T", "IdResult": "R", "IdRef": "i", "IdScope": "i", "IdMemorySemantics": "i",
    "LiteralString": "s", "LiteralContextDependentNumber": "N", "LiteralSpecConstantOpInteger": "O",
    "PairIdRefIdRef": "p", "PairLiteralIntegerIdRef": "P", "PairIdRefLiteralInteger": "Q",
    "Decoration": "D", "ExecutionMode": "X", "MemoryAccess": "M", "ImageOperands": "I", "LoopControl": "L",
}  # fmt: skip
# Grammar kinds whose enumerants take operands of their own, and the table that holds those.
PARAMETERS = {
    "Decoration": "DECORATION_OPERANDS",
    "ExecutionMode": "EXECUTION_MODE_OPERANDS",
    "MemoryAccess": "MEMORY_ACCESS_OPERANDS",
    "ImageOperands": "IMAGE_OPERANDS_OPERANDS",
    "LoopControl": "LOOP_CONTROL_OPERANDS",
}
# SPV_KHR_untyped_pointers, SPV_KHR_cooperative_matrix, SPV_KHR_quad_control, SPV_EXT_replicated_composites,
# SPV_KHR_fma, SPV_KHR_relaxed_extended_instruction, SPV_NV_raw_access_chains, SPV_NV_cooperative_matrix2:
# "Modifications to the SPIR-V Specification" of each.
NEWER_OPCODES = {
    "OpTypeUntypedPointerKHR": (4417, "Rn"),
    "OpUntypedVariableKHR": (4418, "TRni?i?"),
    "OpUntypedAccessChainKHR": (4419, "TRiii*"),
    "OpUntypedInBoundsAccessChainKHR": (4420, "TRiii*"),
    "OpUntypedPtrAccessChainKHR": (4423, "TRiiii*"),
    "OpUntypedInBoundsPtrAccessChainKHR": (4424, "TRiiii*"),
    "OpUntypedArrayLengthKHR": (4425, "TRiin"),
    "OpUntypedPrefetchKHR": (4426, "iii?i?i?"),
    "OpFmaKHR": (4427, "TRiii"),
    "OpExtInstWithForwardRefsKHR": (4433, "TRini*"),
    "OpTypeCooperativeMatrixKHR": (4456, "Riiiii"),
    "OpCooperativeMatrixLoadKHR": (4457, "TRiii?M?"),
    "OpCooperativeMatrixStoreKHR": (4458, "iiii?M?"),
    "OpCooperativeMatrixMulAddKHR": (4459, "TRiiin?"),
    "OpCooperativeMatrixLengthKHR": (4460, "TRi"),
    "OpConstantCompositeReplicateEXT": (4461, "TRi"),
    "OpSpecConstantCompositeReplicateEXT": (4462, "TRi"),
    "OpCompositeConstructReplicateEXT": (4463, "TRi"),
    "OpGroupNonUniformQuadAllKHR": (5110, "TRi"),
    "OpGroupNonUniformQuadAnyKHR": (5111, "TRi"),
    "OpCooperativeMatrixConvertNV": (5293, "TRi"),
    "OpRawAccessChainNV": (5398, "TRiiiin?"),
    "OpCooperativeMatrixTransposeNV": (5390, "TRi"),
}
# Operands that grew an optional last one: the encoding of a float type (SPV_KHR_bfloat16, SPV_EXT_float8).
NEWER_SHAPES = {"OpTypeFloat": "Rnn?"}
NEWER_ENUMERANTS = {
    "ExecutionMode": {"MaximallyReconvergesKHR": 6023},
}
# What vkcompute asks about or names to a user.
KINDS = ("ExecutionModel", "ExecutionMode", "StorageClass", "Dim", "ImageFormat", "Decoration", "BuiltIn")
# Enumerants of the graphics stages fill half of these kinds; what a compute shader can carry is kept, and of kinds
# whose names no message spells, what an interface is read from.
KEEP = {
    "ExecutionMode": re.compile(r"^LocalSize"),
    "BuiltIn": re.compile(r"^(NumWorkgroups|WorkgroupSize)$"),
    "Decoration": re.compile(
        r"^(SpecId|Block|BufferBlock|RowMajor|ArrayStride|MatrixStride|BuiltIn|Non(Read|Writ)able|Binding|DescriptorSet"
        r"|Offset)$"
    ),
    "StorageClass": re.compile(r"^(?!.*(Callable|Ray|Hit|ShaderRecord|Task))"),
    "ExecutionModel": re.compile(r"^(?!.*NV)"),
}
READERS = '''SHAPES: dict[int, str] = {}


def _numbers(text: str) -> list[int]:
    """The numbers in a text like "3 5-8"."""
    bounds = [[*map(int, word.split("-"))] for word in text.split()]
    return [number for each in bounds for number in range(each[0], each[-1] + 1)]


def _table(rows: dict[str, str]) -> dict[int, str]:
    """Number -> shape, from shape -> numbers."""
    return {number: shape for shape, text in rows.items() for number in _numbers(text)}


def _ops(shape: str, text: str) -> list[int]:
    """Opcodes of one shape."""
    numbers = _numbers(text)
    SHAPES.update(dict.fromkeys(numbers, shape))
    return numbers


def _op(shape: str, opcode: int) -> int:
    SHAPES[opcode] = shape
    return opcode


# fmt: off
'''
HEAD = '''"""{title}

Written by tools/generate_spirv_tables.py from the grammar of SPIR-V {version}; change the program instead.
{more}"""

from __future__ import annotations
'''


def shape(operands: list[dict[str, str]]) -> str:
    """The operand shape of one instruction, e.g. "TRiM?" for OpLoad."""
    return "".join(LETTERS.get(operand["kind"], "n") + operand.get("quantifier", "") for operand in operands)


def value_of(enumerant: dict[str, Any]) -> int:
    value = enumerant["value"]
    return int(value, 16) if isinstance(value, str) else int(value)


def wrap(words: list[str], indent: str, width: int = 118) -> list[str]:
    """`words` joined by spaces, in lines of at most `width` columns."""
    lines, line = [], indent
    for word in words:
        if len(line) + len(word) > width:
            lines.append(line.rstrip())
            line = indent
        line += word + " "
    return [*lines, line.rstrip()]


def runs(numbers: list[int]) -> str:
    """Ascending numbers as text, e.g. "3 5-8"."""
    bounds: list[list[int]] = []
    for number in numbers:
        if bounds and bounds[-1][1] == number - 1:
            bounds[-1][1] = number
        else:
            bounds.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in bounds)


def by_value(table: dict[int, str]) -> dict[str, list[int]]:
    """Value -> its keys, ascending."""
    groups: dict[str, list[int]] = {}
    for key, value in sorted(table.items()):
        groups.setdefault(value, []).append(key)
    return groups


def shape_rows(table: dict[int, str]) -> str:
    """The rows of a `_table`: a shape and what has it, line by line."""
    return "\n".join(f'    "{text}": {quoted(runs(numbers))},' for text, numbers in by_value(table).items())


def quoted(text: str) -> str:
    """`text` as a string literal, on several lines if it is long."""
    return f'"{text}"' if len(text) < 90 else "\n".join(['"""', *wrap(text.split(), "    "), '"""'])


def targets(names: list[str], indent: str) -> str:
    """`names` as what a sequence is assigned to."""
    if len(one := ", ".join(names)) < 70:
        return one
    return "\n".join(["(", *wrap([f"{name}," for name in names], f"{indent}    "), f"{indent})"])


def instructions(grammar: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Opcode -> (name, shape); the first name where the grammar has aliases."""
    table: dict[int, tuple[str, str]] = {}
    for entry in grammar["instructions"]:
        name = entry["opname"]
        table.setdefault(entry["opcode"], (name, NEWER_SHAPES.get(name, shape(entry.get("operands", [])))))
    for name, (opcode, operands) in NEWER_OPCODES.items():
        table.setdefault(opcode, (name, operands))
    return dict(sorted(table.items()))


def looked_at() -> set[str]:
    """Names of the opcodes that the package's code speaks of."""
    sources = [path for path in PACKAGE.parent.rglob("*.py") if path.name != "opcodes.py"]
    return {name for path in sources for name in re.findall(r"\bop(?:codes)?\.(Op\w+)", path.read_text("utf-8"))}


def parameter_table(grammar: dict[str, Any], kind: str) -> str:
    """The source of one table: enumerant -> shape of the operands that follow it, "" for none."""
    entry = next(k for k in grammar["operand_kinds"] if k["kind"] == kind)
    rows = {value_of(e): shape(e.get("parameters", [])) for e in entry["enumerants"]}
    rows |= {value: rows.get(value, "") for value in NEWER_ENUMERANTS.get(kind, {}).values()}
    return f"{PARAMETERS[kind]} = _table({{\n{shape_rows(rows)}\n}})"


def opcodes_source(grammar: dict[str, Any], version: str) -> str:
    table, names = instructions(grammar), looked_at()
    named: dict[int, str] = {}
    others: dict[int, str] = {}
    for opcode, (name, operands) in table.items():
        (named if name in names else others)[opcode] = operands
    more = """
A shape has one letter per operand: T result type, R result, i id, n literal word, s string, N literal number to the
end, O opcode of OpSpecConstantOp, p pair (id, id), P pair (literal, id), Q pair (id, literal), and enumerants that
bring operands of their own: D Decoration, X ExecutionMode, M MemoryAccess, I ImageOperands, L LoopControl. ? is an
optional operand, * is any number of them.
"""
    lines = [HEAD.format(title="Every SPIR-V opcode, with the shape of its operands.", version=version, more=more)]
    lines.append(READERS)
    for operands, numbers in by_value(named).items():
        group = [table[opcode][0] for opcode in numbers]
        if len(group) == 1:
            lines.append(f'{group[0]} = _op("{operands}", {numbers[0]})')
        else:
            lines.append(f'{targets(group, "")} = _ops("{operands}", {quoted(runs(numbers))})')
    lines.append("# Opcodes that nothing here looks at: known, so that a module with them can be read.")
    lines.append(f"SHAPES.update(_table({{\n{shape_rows(others)}\n}}))")
    declared = [opcode for opcode, (name, _) in table.items() if re.match("Op(Type|Constant|SpecConstant)", name)]
    lines.append("# Types and constants: they stand outside of functions.")
    lines.append(f"DECLARED = frozenset(_numbers({quoted(runs(declared))}))")
    lines.append("# Operands that an enumerant brings with it; of a mask, each bit in ascending order.")
    lines += [parameter_table(grammar, kind) for kind in PARAMETERS]
    lines.append(
        "# fmt: on\n_NAMES: dict[int, str] = {}\n\n\ndef name(opcode: int) -> str:\n"
        '    """The name of an opcode, e.g. "OpLoad"; "opcode 5699" for one that nothing here looks at."""\n'
        "    if not _NAMES:\n"
        '        _NAMES.update({value: key for key, value in globals().items() if key.startswith("Op")})\n'
        '    return _NAMES.get(opcode, f"opcode {opcode}")\n'
    )
    return "\n".join(lines)


def enumerants(grammar: dict[str, Any], kind: str) -> dict[int, str]:
    """Value -> name; the first name without a vendor's suffix where there are aliases."""
    entry = next(k for k in grammar["operand_kinds"] if k["kind"] == kind)
    rows = {e["enumerant"]: value_of(e) for e in entry["enumerants"]} | NEWER_ENUMERANTS.get(kind, {})
    keep = KEEP.get(kind, re.compile(""))
    result: dict[int, str] = {}
    for name, value in rows.items():
        if keep.search(name) and not VENDORS.search(name):
            result.setdefault(value, name)
    return dict(sorted(result.items()))


def enums_source(grammar: dict[str, Any], version: str) -> str:
    more = "\nPlain integers in a namespace per kind: an operand word is an integer, and an import stays cheap.\n"
    title = "The enumerants of SPIR-V that a compute shader can carry, of the kinds that are looked at."
    lines = [HEAD.format(title=title, version=version, more=more), "# fmt: off"]
    for kind in KINDS:
        lines.append(f'\nclass {kind}:\n    """The values of SPIR-V\'s {kind}."""\n')
        rows = enumerants(grammar, kind)
        for run in runs(list(rows)).split():
            first, last = int(run.split("-")[0]), int(run.split("-")[-1])
            names = [rows[value] for value in range(first, last + 1)]
            names = [f"Dim{name}" if name[0].isdigit() else name for name in names]
            start = f"{first}, " if first else ""
            source = f"range({start}{last + 1})" if len(names) > 1 else str(first)
            lines.append(f"    {targets(names, '    ')} = {source}")
        lines.append("")
    lines.append(
        "\ndef name(kind: type, value: int) -> str:\n"
        '    """The name of `value` in the namespace `kind`, e.g. name(Dim, 5) == "Buffer"; "Dim 77" if unknown."""\n'
        '    for key, number in vars(kind).items():\n        if number == value and not key.startswith("_"):\n'
        "            return key\n"
        '    return f"{kind.__name__} {value}"\n'
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--grammar", type=Path, default=GRAMMAR)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when an output is stale")
    options = parser.parse_args()
    grammar = json.loads(options.grammar.read_text())
    version = f"{grammar['major_version']}.{grammar['minor_version']} revision {grammar['revision']}"
    stale = False
    outputs = {"opcodes.py": opcodes_source(grammar, version), "enums.py": enums_source(grammar, version)}
    for name, source in outputs.items():
        path = PACKAGE / name
        if not path.exists() or path.read_text() != source:
            stale = True
            print(f"{path}: {'stale' if options.check else 'written'}")
            if not options.check:
                path.write_text(source)
    return int(stale and options.check)


if __name__ == "__main__":
    sys.exit(main())
