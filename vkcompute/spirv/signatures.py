"""Signatures: validation rules for instructions whose types follow from those of their operands, as tables."""

from __future__ import annotations

from vkcompute.spirv import glsl_std_450
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction, string_at
from vkcompute.spirv.values import TYPES, Rule, Values, fail


def _pair(bases: str) -> Rule:
    """Rule for results of two parts: the operands have the type of the first; bases of the parts."""

    def rule(instruction: Instruction, values: Values) -> None:
        result, _, *operands = instruction.operands
        kind = values.definition(result)
        shapes = [values.shape(operand) for operand in kind.operands[1:]] if kind.opcode == op.OpTypeStruct else []
        if [shape.base for shape in shapes] != list(bases) or shapes[0].length != shapes[1].length:
            fail(instruction, f"its result is {kind}, not a structure of two numbers or vectors")
        if any(values.types.get(operand) != kind.operands[1] for operand in operands):
            fail(instruction, "its operands do not have the type of the result's first member")

    return rule


def _matrix(text: str) -> Rule:
    """Rule for products: of the result, then the operands, the component's type, columns and rows.

    A word names the columns and rows: n, m and k are equal where the letters are equal, 1 is one.
    """
    words = text.split()

    def rule(instruction: Instruction, values: Values) -> None:
        kinds = [instruction.operands[0], *(values.types[operand] for operand in instruction.operands[2:])]
        sizes: dict[str, int] = {"1": 1}
        parts = set()
        for word, kind in zip(words, kinds, strict=True):
            part, *size = values.matrix(kind)
            parts.add(part)
            if values.shape(part).base != "f" or any(
                sizes.setdefault(n, k) != k for n, k in zip(word, size, strict=True)
            ):
                fail(instruction, "operands and result are not matrices, vectors or scalars of fitting sizes")
        if len(parts) > 1:
            fail(instruction, "operands and result have different component types")

    return rule


def _extended(instruction: Instruction, values: Values) -> None:
    result, identifier, imported, number, *operands = instruction.operands
    name = values.definition(imported)
    if name.opcode != op.OpExtInstImport or string_at(name.operands, 1, name)[0] != "GLSL.std.450":
        return
    rule, count = _GLSL.get(number, (None, 0))
    if rule is None or len(operands) != count:
        fail(instruction, f"instruction {number} of GLSL.std.450 with {len(operands)} operands does not exist")
    elif any(operand not in values.types for operand in operands):
        fail(instruction, f"operands {operands} are not all values")
    else:
        rule(instruction._replace(operands=(result, identifier, *operands)), values)


def _signature(text: str) -> Rule:
    """Rule for operands of one word each: a letter for the result ("-" for none), then one per operand.

    | letter | type |
    |---|---|
    | b i f n a | scalar: bool, integer, float, number, any of these |
    | B I F N A | the same or a vector of it, with as many components as the result |
    | C | number or vector of any length |
    | = 1 | that of the result, of the first operand |
    | W ~ | integers as wide and as many as those of the result, of the first operand |
    | y Y | component of the result; vector of such components |
    | Z | Y or = |
    | v | vector of bools |
    | 3 4 u w x | 3 floats, 4 integers of 32 bits, 2 integers of 32 bits, 2 floats, 4 floats |
    | s m | constants: scope, memory semantics |
    | p P Q | pointer; pointer to the result's type; pointee of the first operand |
    | g h M | image, image or sampled image, matrix |
    | * _ | any value; a literal |
    """
    start = 0 if text[0] == "-" else 2

    def rule(instruction: Instruction, values: Values) -> None:
        operands = instruction.operands
        result = operands[0] if start else 0
        if start and not _is_shape(text[0], values, result, None):
            fail(instruction, f"its result has {values.definition(result)}, which does not fit")
        first = values.types.get(operands[start], 0) if len(operands) > start else 0
        for letter, identifier in zip(text[1:], operands[start:]):  # noqa: B905  # the last may be optional
            if letter not in "*_" and not _fits(letter, values, identifier, result, first):
                fail(instruction, f"id {identifier} has {values.type_of(identifier)}, which does not fit")

    return rule


def _fits(letter: str, values: Values, identifier: int, result: int, first: int) -> bool:
    """True if the value `identifier` has a type of the letter; `result` and `first` are types."""
    kind = values.types.get(identifier, 0)
    if letter in "=1":
        return kind == (result if letter == "=" else first)
    if letter in "W~":
        shape, other = values.shape(kind), values.shape(result if letter == "W" else first)
        return shape.base in ("i", "c") and shape == other
    if letter in "sm":
        constant = values.definition(identifier)
        known = constant.opcode in _INTEGERS and values.shape(kind) == ("i", 32, 1)
        return known and (constant.opcode != op.OpConstant or _is_effect(letter, constant.operands[2]))
    if letter == "Q":
        return values.definition(first).operands[2:] in ((), (kind,))  # an untyped pointer has no pointee
    if letter == "P":
        pointer = values.definition(kind)
        return pointer.opcode == op.OpTypeUntypedPointerKHR or (
            pointer.opcode == op.OpTypePointer and pointer.operands[2] == result
        )
    if letter == "y":
        return (
            values.definition(result).opcode in (op.OpTypeVector, op.OpTypeMatrix)
            and values.definition(result).operands[1] == kind
        )
    if letter in "YZ":
        vector = values.definition(kind)
        return (letter == "Z" and kind == result) or (vector.opcode == op.OpTypeVector and vector.operands[1] == result)
    return _is_shape(letter, values, kind, values.shape(result).length)


def _is_effect(letter: str, value: int) -> bool:
    """True if the constant is a scope, or memory semantics with one order at most."""
    return value <= 6 if letter == "s" else (value & 0x1E).bit_count() <= 1


def _is_shape(letter: str, values: Values, kind: int, count: int | None) -> bool:
    """True if the type `kind` is one of the letter, in upper case with `count` components."""
    if letter in _TYPE_LETTERS:
        return values.definition(kind).opcode in _TYPE_LETTERS[letter]
    shape = values.shape(kind)
    if letter in _SHAPE_LETTERS:
        return shape == _SHAPE_LETTERS[letter]
    if letter == "C":
        return shape.base in ("i", "f")
    if letter == "v":
        return shape.base == "b" and shape.length > 1
    if letter.islower():
        return shape.base in _BASE_LETTERS[letter] and shape.length == 1
    return shape.base in ("c", *_BASE_LETTERS[letter.lower()]) and count in (None, shape.length)


_INTEGERS = (op.OpConstant, op.OpSpecConstant, op.OpSpecConstantOp, op.OpConstantNull)
_BASE_LETTERS = {"b": ("b",), "i": ("i",), "f": ("f",), "n": ("i", "f"), "a": ("b", "i", "f")}
_SHAPE_LETTERS = {"4": ("i", 32, 4), "u": ("i", 32, 2), "w": ("f", 32, 2), "x": ("f", 32, 4)}
_TYPE_LETTERS = {
    "p": (op.OpTypePointer, op.OpTypeUntypedPointerKHR),
    "g": (op.OpTypeImage,),
    "h": (op.OpTypeImage, op.OpTypeSampledImage),
    "M": (op.OpTypeMatrix,),
    "*": TYPES,
}


def _by_signature(rows: dict[str, str], names: object) -> dict[int, tuple[Rule, int]]:
    """Number -> rule and number of operands, from signature -> names."""
    return {
        getattr(names, name): (_signature(text), len(text) - 1)
        for text, words in rows.items()
        for name in words.split()
    }


_GLSL: dict[int, tuple[Rule, int]] = {
    **_by_signature(
        {
            "F=": """Round RoundEven Trunc FAbs FSign Floor Ceil Fract Radians Degrees Sin Cos Tan Asin Acos Atan Sinh
                Cosh Tanh Asinh Acosh Atanh Exp Log Exp2 Log2 Sqrt InverseSqrt Normalize""",
            "F==": "Atan2 Pow FMin FMax Step Reflect NMin NMax Cross",
            "F===": "FClamp FMix SmoothStep Fma FaceForward NClamp",
            "F==f": "Refract",
            "F=p": "Frexp",
            "F=P": "Modf",
            "F=I": "Ldexp",
            "fZ": "Length",
            "fZ1": "Distance",
            "fM": "Determinant",
            "M=": "MatrixInverse",
            "IW": "SAbs SSign FindILsb FindSMsb FindUMsb",
            "IWW": "UMin SMin UMax SMax",
            "IWWW": "UClamp SClamp",
            "ix": "PackSnorm4x8 PackUnorm4x8",
            "iw": "PackSnorm2x16 PackUnorm2x16 PackHalf2x16",
            "fu": "PackDouble2x32",
            "xi": "UnpackSnorm4x8 UnpackUnorm4x8",
            "wi": "UnpackSnorm2x16 UnpackUnorm2x16 UnpackHalf2x16",
            "uf": "UnpackDouble2x32",
            "FP": "InterpolateAtCentroid",
            "FP*": "InterpolateAtSample InterpolateAtOffset",
        },
        glsl_std_450,
    ),
    glsl_std_450.ModfStruct: (_pair("ff"), 1),
    glsl_std_450.FrexpStruct: (_pair("fi"), 1),
}
_SIGNATURES = {
    "F=": "FNegate QuantizeToF16 DPdx DPdy Fwidth DPdxFine DPdyFine FwidthFine DPdxCoarse DPdyCoarse FwidthCoarse",
    "F==": "FAdd FSub FMul FDiv FRem FMod",
    "F===": "FmaKHR",
    "F=y": "VectorTimesScalar",
    "fY1": "Dot",
    "*=": "CopyObject",
    "*==": "ExpectKHR",
    "B=": "LogicalNot",
    "B==": "LogicalAnd LogicalOr LogicalEqual LogicalNotEqual",
    "IW": "SNegate Not BitReverse",
    "IWW": "IAdd ISub IMul UDiv SDiv UMod SRem SMod BitwiseOr BitwiseXor BitwiseAnd",
    "IWI": "ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical",
    "I==ii": "BitFieldInsert",
    "I=ii": "BitFieldSExtract BitFieldUExtract",
    "II": "BitCount UConvert SConvert SatConvertSToU SatConvertUToS",
    "IF": "ConvertFToU ConvertFToS",
    "FI": "ConvertSToF ConvertUToF",
    "FF": "FConvert",
    "ip": "ConvertPtrToU",
    "pi": "ConvertUToPtr",
    "bv": "Any All",
    "BF": "IsNan IsInf IsFinite IsNormal SignBitSet",
    "BF1": """LessOrGreater Ordered Unordered FOrdEqual FUnordEqual FOrdNotEqual FUnordNotEqual FOrdLessThan
        FUnordLessThan FOrdGreaterThan FUnordGreaterThan FOrdLessThanEqual FUnordLessThanEqual FOrdGreaterThanEqual
        FUnordGreaterThanEqual""",
    "BI~": """IEqual INotEqual UGreaterThan SGreaterThan UGreaterThanEqual SGreaterThanEqual ULessThan SLessThan
        ULessThanEqual SLessThanEqual""",
    "aYi": "VectorExtractDynamic",
    "A=yi": "VectorInsertDynamic",
    "iCC": "SDot UDot SUDot",
    "iCC=": "SDotAccSat UDotAccSat SUDotAccSat",
    "-ssm": "ControlBarrier",
    "-sm": "MemoryBarrier",
    "nPsm": "AtomicLoad",
    "-psmQ": "AtomicStore",
    "nPsm=": "AtomicExchange",
    "iPsmm==": "AtomicCompareExchange",
    "iPsm": "AtomicIIncrement AtomicIDecrement",
    "iPsm=": "AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax AtomicUMax AtomicAnd AtomicOr AtomicXor",
    "FPsm=": "AtomicFAddEXT AtomicFMinEXT AtomicFMaxEXT",
    "bs": "GroupNonUniformElect",
    "bsb": "GroupNonUniformAll GroupNonUniformAny",
    "bs*": "GroupNonUniformAllEqual",
    "As=i": """GroupNonUniformBroadcast GroupNonUniformShuffle GroupNonUniformShuffleXor GroupNonUniformShuffleUp
        GroupNonUniformShuffleDown GroupNonUniformQuadBroadcast GroupNonUniformQuadSwap""",
    "As=ii": "GroupNonUniformRotateKHR",
    "As=": "GroupNonUniformBroadcastFirst",
    "4sb": "GroupNonUniformBallot",
    "bs4": "GroupNonUniformInverseBallot",
    "bs4i": "GroupNonUniformBallotBitExtract",
    "is_4": "GroupNonUniformBallotBitCount",
    "is4": "GroupNonUniformBallotFindLSB GroupNonUniformBallotFindMSB",
    "Is_=i": """GroupNonUniformIAdd GroupNonUniformIMul GroupNonUniformSMin GroupNonUniformUMin GroupNonUniformSMax
        GroupNonUniformUMax GroupNonUniformBitwiseAnd GroupNonUniformBitwiseOr GroupNonUniformBitwiseXor""",
    "Fs_=i": "GroupNonUniformFAdd GroupNonUniformFMul GroupNonUniformFMin GroupNonUniformFMax",
    "Bs_=i": "GroupNonUniformLogicalAnd GroupNonUniformLogicalOr GroupNonUniformLogicalXor",
    "4b": "SubgroupBallotKHR",
    "bb": "SubgroupAllKHR SubgroupAnyKHR SubgroupAllEqualKHR",
    "A=": "SubgroupFirstInvocationKHR",
    "A=i": "SubgroupReadInvocationKHR",
    "Igi": "ImageQuerySizeLod",
    "Ig": "ImageQuerySize ImageQueryLevels ImageQuerySamples",
    "bpp": "PtrEqual PtrNotEqual",
    "ipp": "PtrDiff",
}
_OTHERS: dict[str, Rule] = {
    "ExtInst ExtInstWithForwardRefsKHR": _extended,
    "IAddCarry ISubBorrow UMulExtended SMulExtended": _pair("ii"),
    "MatrixTimesScalar": _matrix("nm nm 11"),
    "VectorTimesMatrix": _matrix("1n 1m nm"),
    "MatrixTimesVector": _matrix("1m nm 1n"),
    "MatrixTimesMatrix": _matrix("nm km nk"),
    "OuterProduct": _matrix("nm 1m 1n"),
    "Transpose": _matrix("nm mn"),
}
RULES = {**_OTHERS, **{names: _signature(text) for text, names in _SIGNATURES.items()}}
"""Names of opcodes -> rule."""
