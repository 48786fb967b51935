"""Write the SPIR-V tables in vkcompute/spirv from Khronos's machine-readable grammars.

    python tools/generate_spirv_tables.py [--grammars /usr/include/spirv/unified1] [--check]

    opcodes.py          opcodes and the shapes of their operands, from spirv.core.grammar.json
    enums.py            enumerants, from the same
    glsl_std_450.py     instructions of GLSL.std.450, from extinst.glsl.std.450.grammar.json

Debian's spirv-headers and the Vulkan SDK install the grammars. The NEWER_* tables below add rows that SPIR-V 1.6
revision 1 lacks, so that the output does not depend on the installed revision. Opcodes and enumerants that the package
names become constants; run this after the first use of another one. `--check` writes nothing and exits 1 when an output
is stale.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

GRAMMARS = Path("/usr/include/spirv/unified1")
PACKAGE = Path(__file__).resolve().parent.parent / "vkcompute" / "spirv"
OUTPUTS = ("opcodes.py", "enums.py", "glsl_std_450.py")
VENDORS = re.compile(r"(INTEL|NV|NVX|AMD|QCOM|ARM|HUAWEI|GOOGLE)$|(INTEL|ALTERA)")
# Operand kind -> letter of a shape; vkcompute/spirv/instruction.py reads them.
LETTERS = {
    "IdResultType": "T", "IdResult": "R", "IdRef": "i", "IdScope": "i", "IdMemorySemantics": "i",
    "LiteralString": "s", "LiteralContextDependentNumber": "N", "LiteralSpecConstantOpInteger": "O",
    "PairIdRefIdRef": "p", "PairLiteralIntegerIdRef": "P", "PairIdRefLiteralInteger": "Q",
}  # fmt: skip
# Operand kind with enumerants -> letter of a shape.
ENUMERATED = {
    "Decoration": "D", "ExecutionMode": "X", "MemoryAccess": "M", "ImageOperands": "I", "LoopControl": "L",
    "ExecutionModel": "E", "AddressingModel": "A", "MemoryModel": "Y", "SourceLanguage": "U", "StorageClass": "S",
    "Dim": "d", "ImageFormat": "F", "AccessQualifier": "a", "GroupOperation": "G", "SelectionControl": "c",
    "FunctionControl": "f", "BuiltIn": "b", "PackedVectorFormat": "V", "SamplerAddressingMode": "k",
    "SamplerFilterMode": "l", "FPFastMathMode": "m", "FPRoundingMode": "r", "LinkageType": "h", "FPDenormMode": "o",
    "FPOperationMode": "q", "FunctionParameterAttribute": "u", "Capability": "C",
}  # fmt: skip
# Names of operands that are ids of types, and of operands whose ids may be something else than values and types.
TYPE_OPERANDS = re.compile(r"'.*\b[Tt]ype'|'(Member|Parameter) 0 [Tt]ype|'Result Type'")
OTHER_OPERANDS = re.compile(r"'(Set|Function|Invoke|File|.* Label|Default|Merge Block|Continue Target|Entry Point)'")
OTHER_OPCODES = re.compile(
    r"Op(Name|MemberName|Decorat|MemberDecorat|GroupDecorat|GroupMemberDecorat|EntryPoint|TypeForward|ExtInst|.*INTEL)"
)
# Enumerants whose mention requires no capability: Vulkan's environment permits them everywhere.
FREE_ENUMERANTS = {"BuiltIn": ("PointSize", "ClipDistance", "CullDistance"), "FPRoundingMode": ("RTE", "RTZ")}
# SPV_KHR_untyped_pointers, SPV_KHR_cooperative_matrix, SPV_KHR_quad_control, SPV_EXT_replicated_composites,
# SPV_KHR_fma, SPV_KHR_relaxed_extended_instruction, SPV_NV_raw_access_chains, SPV_NV_cooperative_matrix2:
# "Modifications to the SPIR-V Specification" of each.
NEWER_OPCODES = {
    "OpTypeUntypedPointerKHR": (4417, "RS"),
    "OpUntypedVariableKHR": (4418, "TRSt?i?"),
    "OpUntypedAccessChainKHR": (4419, "TRtii*"),
    "OpUntypedInBoundsAccessChainKHR": (4420, "TRtii*"),
    "OpUntypedPtrAccessChainKHR": (4423, "TRtiii*"),
    "OpUntypedInBoundsPtrAccessChainKHR": (4424, "TRtiii*"),
    "OpUntypedArrayLengthKHR": (4425, "TRtin"),
    "OpUntypedPrefetchKHR": (4426, "iii?i?i?"),
    "OpFmaKHR": (4427, "TRiii"),
    "OpExtInstWithForwardRefsKHR": (4433, "TRgng*"),
    "OpTypeCooperativeMatrixKHR": (4456, "Rtiiii"),
    "OpCooperativeMatrixLoadKHR": (4457, "TRiii?M?"),
    "OpCooperativeMatrixStoreKHR": (4458, "iiii?M?"),
    "OpCooperativeMatrixMulAddKHR": (4459, "TRiiin?"),
    "OpCooperativeMatrixLengthKHR": (4460, "TRt"),
    "OpConstantCompositeReplicateEXT": (4461, "TRi"),
    "OpSpecConstantCompositeReplicateEXT": (4462, "TRi"),
    "OpCompositeConstructReplicateEXT": (4463, "TRi"),
    "OpGroupNonUniformQuadAllKHR": (5110, "TRi"),
    "OpGroupNonUniformQuadAnyKHR": (5111, "TRi"),
    "OpCooperativeMatrixConvertNV": (5293, "TRi"),
    "OpRawAccessChainNV": (5398, "TRiiiin?"),
    "OpCooperativeMatrixTransposeNV": (5390, "TRi"),
}
# Opcodes that gained an optional last operand: the encoding of a float type (SPV_KHR_bfloat16, SPV_EXT_float8).
NEWER_SHAPES = {"OpTypeFloat": "Rnn?"}
# The same extensions, SPV_KHR_maximal_reconvergence, SPV_KHR_bfloat16, SPV_EXT_float8, SPV_EXT_shader_64bit_indexing,
# SPV_KHR_compute_shader_derivatives, SPV_NV_shader_atomic_fp16_vector, SPV_NV_tensor_addressing.
NEWER_ENUMERANTS = {
    "ExecutionMode": {
        "QuadDerivativesKHR": 5088,
        "RequireFullQuadsKHR": 5089,
        "MaximallyReconvergesKHR": 6023,
        "FPFastMathDefault": 6028,
    },
    "SourceLanguage": {"SYCL": 7, "HERO_C": 8, "NZSL": 9, "WGSL": 10, "Slang": 11, "Zig": 12, "Rust": 13},
    "FPFastMathMode": {"AllowTransform": 0x40000},
    "Capability": {
        "Float8EXT": 4212,
        "Float8CooperativeMatrixEXT": 4213,
        "UntypedPointersKHR": 4473,
        "QuadControlKHR": 5087,
        "BFloat16TypeKHR": 5116,
        "BFloat16DotProductKHR": 5117,
        "BFloat16CooperativeMatrixKHR": 5118,
        "ComputeDerivativeGroupQuadsKHR": 5288,
        "ComputeDerivativeGroupLinearKHR": 5350,
        "AtomicFloat16VectorNV": 5404,
        "RawAccessChainsNV": 5414,
        "Shader64BitIndexingEXT": 5426,
        "CooperativeMatrixReductionsNV": 5430,
        "CooperativeMatrixConversionsNV": 5431,
        "CooperativeMatrixPerElementOperationsNV": 5432,
        "CooperativeMatrixTensorAddressingNV": 5433,
        "CooperativeMatrixBlockLoadsNV": 5434,
        "TensorAddressingNV": 5439,
        "CooperativeMatrixKHR": 6022,
        "ReplicatedCompositesEXT": 6024,
        "FloatControls2": 6029,
        "FMAKHR": 6030,
    },
}
NEWER_PARAMETERS = {"FPFastMathDefault": "ti"}
# Opcodes without a name here: of OpenCL's groups, queues and pipes, geometry shaders, ray queries, and vendors.
NAMELESS_CLASSES = ("Pipe", "Device-Side_Enqueue", "Primitive")
NAMELESS = re.compile(r"RayQuery|TraceRay|OpGroup(?!NonUniform|Decorate|MemberDecorate)")
NAMED = ("OpEnqueueKernel", "OpRawAccessChainNV", "OpTypeCooperativeMatrixNV")  # exceptions
# Operand kind -> the enumerants to keep, None for all but those of vendors.
KINDS: dict[str, str | None] = {
    "ExecutionModel": None,
    "ExecutionMode": "LocalSize|Denorm|SignedZero|RoundingModeRT[EZ]$",
    "AddressingModel": None,
    "MemoryModel": None,
    "StorageClass": r"(?!.*(Callable|Ray|Hit|ShaderRecord|Task))",
    "Dim": None,
    "ImageFormat": None,
    "Decoration": r"(?!FP|Func|Linkage|Relaxed)",
    "BuiltIn": r"(NumWorkgroups|WorkgroupSize|WorkgroupId|(Local|Global)InvocationId|LocalInvocationIndex"
    r"|NumSubgroups|Subgroup(Size|Id|LocalInvocationId))$",
    "SelectionControl": "None",
    "LoopControl": "(None|Unroll|DontUnroll)$",
    "FunctionControl": "(None|Inline|DontInline)$",
    "Scope": None,
    "MemorySemantics": None,
    "GroupOperation": None,
    "Capability": r"(?!.*(INTEL|ALTERA|Geometry|Tessellation|Ray(?!Query)|Fragment|Mesh|Stencil|Viewport|ShadingRate))",
}
KINDS_WITH_VENDORS = ("Capability",)
NAMED_KINDS = (
    "ExecutionModel",
    "Dim",
    "ImageFormat",
    "Decoration",
    "Capability",
)  # messages have the names of their enumerants
HEAD = '''"""{title}

Generated by tools/generate_spirv_tables.py from {version}.
{more}"""

from __future__ import annotations
'''
OPCODES_MORE = """
A shape has one letter per operand; ? marks an optional operand, * any number of them.

    T result type   R result   i id of a value   t id of a type   g other id   n literal word   s string
    N literal number, to the end   O opcode of OpSpecConstantOp
    p pair (id, id)   P pair (literal, id)   Q pair (id, literal)

Other letters are kinds of enumerants. A row of ENUMERANTS has "shape/capabilities: numbers". The shape is that of the
operands that follow the enumerant; in a mask, those of each bit in ascending order. It needs one of the capabilities.
Those of a capability are implied by it.
"""
OPCODES_START = '''
from functools import cache

SHAPES: dict[int, str] = {}


def _op(opcode: int, shape: str) -> int:
    SHAPES[opcode] = shape
    return opcode


def _numbers(text: str) -> list[int]:
    """The numbers in a text like "3 5-8"."""
    bounds = [[*map(int, word.split("-"))] for word in text.split()]
    return [number for each in bounds for number in range(each[0], each[-1] + 1)]


def _table(rows: dict[str, str]) -> dict[int, str]:
    """Number -> shape, from shape -> numbers."""
    return {number: shape for shape, text in rows.items() for number in _numbers(text)}


def _required(text: str) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Number -> shape and capabilities, from rows "shape/capabilities: numbers"."""
    found = {}
    for row in text.split(";"):
        key, numbers = row.split(":")
        shape, _, capabilities = key.strip().partition("/")
        found.update(dict.fromkeys(_numbers(numbers), (shape, tuple(map(int, filter(None, capabilities.split("|")))))))
    return found


# fmt: off'''
OPCODES_END = '''# fmt: on


@cache
def names() -> dict[int, str]:
    """Opcode -> name."""
    used = {value: key for key, value in globals().items() if key.startswith("Op")}
    return used | {int(number): f"Op{key}" for key, number in (each.split("=") for each in _UNUSED.split())}


@cache
def enumerants(letter: str) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Value -> shape of its operands, and its capabilities, of the kind with this letter."""
    return _required(ENUMERANTS[letter][1])


@cache
def requirements() -> dict[int, tuple[int, ...]]:
    """Opcode -> capabilities, one of which it requires."""
    return {opcode: capabilities for opcode, (_, capabilities) in _required(REQUIREMENTS).items()}


def name(opcode: int) -> str:
    """The name of an opcode, e.g. "OpLoad"; "opcode 5699" for one without a name here."""
    return names().get(opcode, f"opcode {opcode}")
'''
ENUMS_START = """
import functools

# fmt: off

MAGIC = {magic}  # the first word of a module
"""
ENUMS_END = '''
# fmt: on


@functools.cache
def names(kind: type) -> dict[int, str]:
    """Value -> name of the enumerants of a kind."""
    unused = (each.split("=") for each in getattr(kind, "_UNUSED", "").split())
    used = {value: key for key, value in vars(kind).items() if not key.startswith("_")}
    return used | {int(value): key for key, value in unused}


def name(kind: type, value: int) -> str:
    """The name of `value` in the namespace `kind`, e.g. name(Dim, 5) == "Buffer"; "Dim 77" if unknown."""
    return names(kind).get(value, f"{kind.__name__} {value}")
'''


def letter(operand: dict[str, str], opcode: str = "") -> str:
    """The letter of one operand."""
    kind, name = operand["kind"], operand.get("name", "")
    if kind == "IdRef" and TYPE_OPERANDS.match(name) and (opcode.startswith("OpType") or name != "'Result Type'"):
        return "t"
    if kind == "IdRef" and (OTHER_OPERANDS.fullmatch(name) or OTHER_OPCODES.match(opcode)):
        return "g"
    return LETTERS.get(kind) or (ENUMERATED[kind] if kind in ENUMERATED and kind != "Capability" else "n")


def shape(operands: list[dict[str, str]], opcode: str = "") -> str:
    """The operand shape of one instruction, e.g. "TRiM?" for OpLoad."""
    return "".join(letter(operand, opcode) + operand.get("quantifier", "") for operand in operands)


def value_of(enumerant: dict[str, Any]) -> int:
    """The value of an enumerant, which the grammar spells "0x0008" for a bit of a mask."""
    value = enumerant["value"]
    return int(value, 16) if isinstance(value, str) else int(value)


def operand_kind(grammar: dict[str, Any], kind: str) -> dict[str, Any]:
    """The grammar's entry for an operand kind."""
    entry: dict[str, Any] = next(item for item in grammar["operand_kinds"] if item["kind"] == kind)
    return entry


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


def quoted(text: str, indent: str = "") -> str:
    """`text` as a string literal, on several lines if it is long."""
    return f'"{text}"' if len(text) < 90 else "\n".join(['"""', *wrap(text.split(), f"{indent}    "), f'{indent}"""'])


def shape_rows(table: dict[int, str]) -> str:
    """The rows of a `_table`: a shape and its opcodes, line by line."""
    groups: dict[str, list[int]] = {}
    for number, operands in sorted(table.items()):
        groups.setdefault(operands, []).append(number)
    return "\n".join(f'    "{operands}": {quoted(runs(numbers))},' for operands, numbers in groups.items())


def used_names(pattern: str) -> set[str]:
    """The matches of a pattern in the package, generated files left out."""
    files = [path for path in PACKAGE.parent.rglob("*.py") if path.parent != PACKAGE or path.name not in OUTPUTS]
    return {name for path in files for name in re.findall(pattern, path.read_text())}


def instructions(grammar: dict[str, Any]) -> dict[int, tuple[str, str, bool]]:
    """Opcode -> (name, shape, True if it is named here). Of aliases, the first without a vendor's suffix counts."""
    table: dict[int, tuple[str, str, bool]] = {}
    for entry in grammar["instructions"]:
        name, opcode = entry["opname"], entry["opcode"]
        if opcode not in table or (VENDORS.search(table[opcode][0]) and not VENDORS.search(name)):
            operands = NEWER_SHAPES.get(name, shape(entry.get("operands", []), name))
            table[opcode] = name, operands, is_named(name, entry.get("class", ""))
    for name, (opcode, operands) in NEWER_OPCODES.items():
        table[opcode] = name, operands, is_named(name, "")
    return dict(sorted(table.items()))


def is_named(name: str, group: str) -> bool:
    """True if an opcode of a class of the grammar gets a name in opcodes.py."""
    if name in NAMED:
        return True
    return group not in NAMELESS_CLASSES and not NAMELESS.search(name) and not VENDORS.search(name)


def packed(rows: dict[int, tuple[str, tuple[int, ...]]], name: str) -> str:
    """The rows of a `_required`, as a string literal: "shape/capabilities: numbers" by ";"."""
    groups: dict[str, list[int]] = {}
    for number, (operands, capabilities) in sorted(rows.items()):
        groups.setdefault(f"{operands}/{'|'.join(map(str, capabilities))}", []).append(number)
    text = "; ".join(f"{key}: {runs(numbers)}" for key, numbers in groups.items())
    return "\n".join([f'{name}"""', *wrap(text.split(), "    "), '"""'])


def capabilities(grammar: dict[str, Any], entry: dict[str, Any]) -> tuple[int, ...]:
    """The numbers of the capabilities that the grammar's entry requires."""
    numbers = {item["enumerant"]: item["value"] for item in operand_kind(grammar, "Capability")["enumerants"]}
    return tuple(sorted(numbers[item] for item in entry.get("capabilities", [])))


def enumerant_row(grammar: dict[str, Any], kind: str) -> str:
    """The source of a row of ENUMERANTS: a letter, the kind's name, and its values."""
    rows: dict[int, tuple[str, tuple[int, ...]]] = {}
    for each in operand_kind(grammar, kind)["enumerants"]:
        needs = () if each["enumerant"] in FREE_ENUMERANTS.get(kind, ()) else capabilities(grammar, each)
        parameters, earlier = shape(each.get("parameters", [])), rows.get(value_of(each), ("", needs))[1]
        rows[value_of(each)] = parameters, tuple(sorted({*needs, *earlier})) if needs and earlier else ()
    for name, value in NEWER_ENUMERANTS.get(kind, {}).items():
        rows.setdefault(value, (NEWER_PARAMETERS.get(name, ""), ()))
    return packed(rows, f'    "{ENUMERATED[kind]}": ("{kind}", ') + "),"


def opcodes_source(grammar: dict[str, Any], version: str) -> str:
    """The source of opcodes.py."""
    table = instructions(grammar)
    title = "SPIR-V opcodes, with the shapes of their operands."
    lines = [HEAD.format(title=title, version=version, more=OPCODES_MORE) + OPCODES_START]
    used = used_names(r"\bOp[A-Z]\w*")
    lines += [f'{name} = _op({opcode}, "{operands}")' for opcode, (name, operands, _) in table.items() if name in used]
    others = {opcode: operands for opcode, (name, operands, _) in table.items() if name not in used}
    lines.append("# Opcodes that the package does not use; with their shapes, modules that have them can be read.")
    lines.append(f"SHAPES.update(_table({{\n{shape_rows(others)}\n}}))")
    declared = [opcode for opcode, row in table.items() if re.match("Op(Type|Constant|SpecConstant)", row[0])]
    lines.append("# Types and constants: declarations outside of functions.")
    lines.append(f"DECLARED = frozenset(_numbers({quoted(runs(declared))}))")
    masks = [ENUMERATED[kind] for kind in ENUMERATED if operand_kind(grammar, kind)["category"] == "BitEnum"]
    lines.append(f'MASKS = "{"".join(masks)}"  # the kinds that are masks')
    lines += ["ENUMERANTS = {", *[enumerant_row(grammar, kind) for kind in ENUMERATED], "}"]
    lines.append("# Opcodes that require one of some capabilities: rows as above.")
    needs = {item["opcode"]: ("", capabilities(grammar, item)) for item in reversed(grammar["instructions"])}
    lines.append(packed({opcode: row for opcode, row in needs.items() if row[1]}, "REQUIREMENTS = "))
    unused = [f"{name[2:]}={opcode}" for opcode, (name, _, named) in table.items() if named and name not in used]
    lines.append(f"# Names for messages.\n_UNUSED = {quoted(' '.join(unused))}")
    return "\n".join([*lines, OPCODES_END])


def enumerants(grammar: dict[str, Any], kind: str) -> dict[str, int]:
    """Name -> value, ascending. Of aliases, the first without a vendor's suffix counts."""
    rows = {e["enumerant"]: value_of(e) for e in operand_kind(grammar, kind)["enumerants"]}
    rows |= NEWER_ENUMERANTS.get(kind, {})
    keep = re.compile(KINDS[kind] or "")
    names: dict[int, str] = {}
    for name, value in sorted(rows.items(), key=lambda row: bool(VENDORS.search(row[0]))):
        if keep.match(name) and (kind in KINDS_WITH_VENDORS or not VENDORS.search(name)):
            names.setdefault(value, name)
    return {names[value]: value for value in sorted(names)}


def identifier(kind: str, name: str) -> str:
    """The name of an enumerant in Python."""
    if name == "None":
        return "MaskNone"  # as in spirv.hpp
    return f"{kind}{name}" if name[0].isdigit() else name


def enums_source(grammar: dict[str, Any], version: str) -> str:
    """The source of enums.py."""
    more = "\nPlain integers in a namespace per kind: an operand word is an integer, and an import stays cheap.\n"
    title = "SPIR-V's magic number, and the enumerants that a compute shader can have."
    magic = ENUMS_START.format(magic=grammar["magic_number"])
    lines = [HEAD.format(title=title, version=version, more=more) + magic]
    for kind in KINDS:
        is_mask = operand_kind(grammar, kind)["category"] == "BitEnum"
        lines.append(f'\nclass {kind}:\n    """The values of SPIR-V\'s {kind}."""\n')
        rows = {identifier(kind, name): value for name, value in enumerants(grammar, kind).items()}
        used = used_names(rf"\b{kind}\.(\w+)")
        lines += [f"    {name} = {f'{value:#x}' if is_mask else value}" for name, value in rows.items() if name in used]
        if kind in NAMED_KINDS:
            unused = [f"{name}={value}" for name, value in rows.items() if name not in used]
            lines.append(f"    _UNUSED = {quoted(' '.join(unused), '    ')}")
        lines.append("")
    return "\n".join(lines) + ENUMS_END


def glsl_std_450_source(grammar: dict[str, Any]) -> str:
    """The source of glsl_std_450.py."""
    version = f"the grammar of GLSL.std.450 version {grammar['version']} revision {grammar['revision']}"
    title = "Instructions of the extended instruction set GLSL.std.450."
    lines = [HEAD.format(title=title, version=version, more="")]
    lines += [f"{entry['opname']} = {entry['opcode']}" for entry in grammar["instructions"]]
    return "\n".join([*lines, ""])


def sources(folder: Path) -> dict[str, str]:
    """File -> its source, from the grammars in `folder`."""
    core = json.loads((folder / "spirv.core.grammar.json").read_text())
    version = f"the grammar of SPIR-V {core['major_version']}.{core['minor_version']} revision {core['revision']}"
    return {
        "opcodes.py": opcodes_source(core, version),
        "enums.py": enums_source(core, version),
        "glsl_std_450.py": glsl_std_450_source(json.loads((folder / "extinst.glsl.std.450.grammar.json").read_text())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--grammars", type=Path, default=GRAMMARS, metavar="FOLDER")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when an output is stale")
    options = parser.parse_args()
    stale = False
    for name, source in sources(options.grammars).items():
        path = PACKAGE / name
        if not path.exists() or path.read_text() != source:
            stale = True
            print(f"{path}: {'stale' if options.check else 'written'}")
            if not options.check:
                path.write_text(source)
    return int(stale and options.check)


if __name__ == "__main__":
    sys.exit(main())
