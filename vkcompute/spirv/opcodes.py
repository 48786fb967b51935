"""Every SPIR-V opcode, with the shape of its operands.

Written by tools/generate_spirv_tables.py from the grammar of SPIR-V 1.6 revision 1; change the program instead.

A shape has one letter per operand: T result type, R result, i id, n literal word, s string, N literal number to the
end, O opcode of OpSpecConstantOp, p pair (id, id), P pair (literal, id), Q pair (id, literal), and enumerants that
bring operands of their own: D Decoration, X ExecutionMode, M MemoryAccess, I ImageOperands, L LoopControl. ? is an
optional operand, * is any number of them.
"""

from __future__ import annotations

SHAPES: dict[int, str] = {}


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

(
    OpNop, OpFunctionEnd, OpKill, OpReturn, OpUnreachable, OpNoLine, OpTerminateInvocation,
) = _ops("", "0 56 252-253 255 317 4416")
(
    OpUndef, OpConstantTrue, OpConstantFalse, OpSpecConstantTrue, OpSpecConstantFalse, OpFunctionParameter,
) = _ops("TR", "1 41-42 48-49 55")
OpSourceContinued, OpSourceExtension, OpExtension, OpModuleProcessed = _ops("s", "2 4 10 330")
OpSource = _op("nni?s?", 3)
OpName = _op("is", 5)
OpMemberName = _op("ins", 6)
OpString, OpExtInstImport = _ops("Rs", "7 11")
OpLine = _op("inn", 8)
OpExtInst, OpExtInstWithForwardRefsKHR = _ops("TRini*", "12 4433")
OpMemoryModel = _op("nn", 14)
OpEntryPoint = _op("nisi*", 15)
OpExecutionMode, OpExecutionModeId = _ops("iX", "16 331")
OpCapability = _op("n", 17)
OpTypeVoid, OpTypeBool, OpTypeSampler, OpDecorationGroup, OpLabel = _ops("R", "19-20 26 73 248")
OpTypeInt = _op("Rnn", 21)
OpTypeFloat = _op("Rnn?", 22)
OpTypeVector, OpTypeMatrix = _ops("Rin", "23-24")
OpTypeImage = _op("Rinnnnnnn?", 25)
OpTypeSampledImage, OpTypeRuntimeArray = _ops("Ri", "27 29")
OpTypeArray = _op("Rii", 28)
OpTypeStruct = _op("Ri*", 30)
OpTypePointer = _op("Rni", 32)
OpTypeFunction = _op("Rii*", 33)
OpTypeForwardPointer, OpSelectionMerge = _ops("in", "39 247")
OpConstant, OpSpecConstant = _ops("TRN", "43 50")
OpConstantComposite, OpSpecConstantComposite = _ops("TRi*", "44 51")
OpSpecConstantOp = _op("TRO", 52)
OpFunction = _op("TRni", 54)
OpFunctionCall, OpAccessChain, OpInBoundsAccessChain = _ops("TRii*", "57 65-66")
OpVariable = _op("TRni?", 59)
OpImageTexelPointer, OpSelect, OpAtomicLoad = _ops("TRiii", "60 169 227")
OpLoad = _op("TRiM?", 61)
OpStore = _op("iiM?", 62)
OpCopyMemory = _op("iiM?M?", 63)
OpCopyMemorySized = _op("iiiM?M?", 64)
(
    OpPtrAccessChain, OpInBoundsPtrAccessChain, OpUntypedAccessChainKHR, OpUntypedInBoundsAccessChainKHR,
) = _ops("TRiii*", "67 70 4419-4420")
OpArrayLength = _op("TRin", 68)
OpDecorate, OpDecorateId, OpDecorateString = _ops("iD", "71 332 5632")
OpMemberDecorate, OpMemberDecorateString = _ops("inD", "72 5633")
OpGroupDecorate = _op("ii*", 74)
OpGroupMemberDecorate = _op("iQ*", 75)
(
    OpVectorExtractDynamic, OpSampledImage, OpImageQuerySizeLod, OpIAdd, OpFAdd, OpISub, OpFSub, OpIMul, OpFMul,
    OpUDiv, OpSDiv, OpFDiv, OpUMod, OpSRem, OpSMod, OpFRem, OpFMod, OpLogicalEqual, OpLogicalNotEqual, OpLogicalOr,
    OpLogicalAnd, OpIEqual, OpINotEqual, OpBitwiseOr, OpBitwiseXor, OpBitwiseAnd, OpPtrEqual, OpPtrNotEqual,
    OpPtrDiff,
) = _ops("TRii", "77 86 103 128-141 164-167 170-171 197-199 401-403")
OpVectorShuffle, OpCompositeInsert = _ops("TRiin*", "79 82")
OpCompositeExtract = _op("TRin*", 81)
(
    OpCopyObject, OpTranspose, OpImage, OpImageQuerySamples, OpConvertFToU, OpBitcast, OpSNegate, OpFNegate,
    OpLogicalNot, OpNot, OpBitCount,
) = _ops("TRi", "83-84 100 107 109 124 126-127 168 200 205")
(
    OpImageSampleImplicitLod, OpImageRead, OpImageSparseSampleImplicitLod, OpImageSparseRead,
) = _ops("TRiiI?", "87 98 305 320")
OpImageWrite = _op("iiiI?", 99)
OpAtomicStore = _op("iiii", 228)
(
    OpAtomicExchange, OpAtomicXor, OpAtomicFMinEXT, OpAtomicFMaxEXT, OpAtomicFAddEXT,
) = _ops("TRiiii", "229 242 5614-5615 6035")
OpPhi = _op("TRp*", 245)
OpLoopMerge = _op("iiL", 246)
OpBranch, OpReturnValue = _ops("i", "249 254")
OpBranchConditional = _op("iiin*", 250)
OpSwitch = _op("iiP*", 251)
OpImageSparseDrefGather = _op("TRiiiI?", 315)
OpTypeUntypedPointerKHR = _op("Rn", 4417)
OpUntypedVariableKHR = _op("TRni?i?", 4418)
OpUntypedPtrAccessChainKHR, OpUntypedInBoundsPtrAccessChainKHR = _ops("TRiiii*", "4423-4424")
OpUntypedArrayLengthKHR = _op("TRiin", 4425)
OpUntypedPrefetchKHR = _op("iii?i?i?", 4426)
OpTypeCooperativeMatrixKHR = _op("Riiiii", 4456)
OpCooperativeMatrixLoadKHR = _op("TRiii?M?", 4457)
OpCooperativeMatrixStoreKHR = _op("iiii?M?", 4458)
OpRawAccessChainNV = _op("TRiiiin?", 5398)
# Opcodes that nothing here looks at: known, so that a module with them can be read.
SHAPES.update(_table({
    "Rs": "31",
    "R": "34-37 322 327 4472 5281 5341 5701-5712",
    "Rn": "38 6086",
    "TRnnn": "45 323",
    "TR": "46 299 303 5381 5721-5723 5726-5727 5819",
    "TRi": """
    69 101-102 104 106 110-122 154-160 204 207-215 282 300 316 321 324 328 333 400 4421-4422 4428-4430 4447 4460-4463
    4477 5056 5110-5111 5252-5255 5257-5258 5265 5267-5278 5293 5296 5362 5390-5396 5575 5585-5586 5600 5728 5732-5745
    5752 5754 5765-5769 5777-5780 5783-5785 5790-5791 5796 5800 5808-5816 5818 5934 5938 6016-6017 6026 6029-6030
""",
    "TRiii": """
    78 202-203 232-233 263 283-284 304 318 337 341 345-348 365-366 4427 5012 5361 5572-5573 5731 5746-5748 5757 5761
    5773-5775 5786 5788 5804 5806
""",
    "TRi*": "80 5601",
    "TRiiI": "88 92 306 310",
    "TRiiiI?": "89 93 96-97 307 311 314",
    "TRiiiI": "90 94 308 312",
    "TRiiI?": "91 95 309 313",
    "TRii": """
    105 142-152 161-163 172-191 194-196 261-262 334-336 338-340 343-344 4432 4479 5011 5334 5571 5574 5577 5587-5598
    5631 5699 5713-5720 5725 5729-5730 5750 5753 5755-5756 5770-5772 5776 5795 5797 5799 5801-5803 5946-5947 5949
    6018-6025 6027-6028 6031-6032
""",
    "TRin": "123",
    "TRiiii": """
    201 234-241 274-275 278-279 291 295-296 326 5580 5724 5749 5751 5758-5759 5762-5763 5787 5789 5798 5805 5807
""",
    "": "218-219 4448-4449 5335-5336 5364-5365 5380",
    "i": "220-221 297-298 4474 4476 5259 5630 5820",
    "iii": "224 260 302 319 329 5578 6142-6143",
    "ii": "225 301 4446 4475 5264 5266 5280 5295 5299 5344 5576",
    "TRiiiiii": "230-231 259 276-277 5792",
    "in": "256-257",
    "TRini": "264-271 342 5000-5007 6401-6408",
    "iiii": "280-281",
    "TRiiiii": "285-286 293-294 325 5760 5764",
    "iiiii": "287-288 5581",
    "TRiiiiiiiiiii*": "292",
    "TRinii?": "349-364",
    "TRiiii?": "4431",
    "iiiiiiiiiii": "4445 5337",
    "TRiin?": "4450-4452",
    "TRiiin?": "4453-4455 4459",
    "iiiiiiii": "4473",
    "iiiiiiiiiiiiii": "5249",
    "iiiiiiiiiiiii": "5250 5256 5261",
    "iiiiiii": "5251",
    "iiiiiiiiiiii": "5260 5262 5338-5339",
    "iiiiii": "5263",
    "ii?i?": "5279",
    "TRiiiiI?": "5283",
    "iiii?": "5294",
    "Riiii": "5358",
    "TRiiiM?": "5359",
    "iiiiM?": "5360",
    "n": "5397",
    "TRs": "5609",
    "TRiiss": "5610",
    "TRii*": "5611",
    "Ri": "5700",
    "TRiiiiiii": "5781",
    "TRiiiiiiii": "5782 5793",
    "TRiiiiiiiiiii": "5794",
    "TRinnnnnn": "5840",
    "TRinnnnn": "5841-5842 5855-5857 5859-5878",
    "TRinnnn": "5843",
    "TRininnnnn": "5846-5849 5858 5879-5881",
    "TRinin": "5850-5854",
    "TRininnnn": "5882",
    "n*": "5887",
    "Ri?": "5911",
    "Rii?": "5912",
    "Ri*": "5913",
    "TRiinnnnn": "5923-5933",
    "i*": "6090-6092",
}))
# Types and constants: they stand outside of functions.
DECLARED = frozenset(_numbers("""
    19-39 41-46 48-52 322-323 327 4417 4456 4461-4462 4472 5281 5341 5358 5600 5700-5712 6086 6090-6092
"""))
# Operands that an enumerant brings with it; of a mask, each bit in ascending order.
DECORATION_OPERANDS = _table({
    "": """
    0 2-5 8-10 13-26 28 42 4469-4470 4999 5248 5250 5252 5271-5273 5285 5300 5355-5356 5386 5398-5401 5602 5608 5624
    5626-5627 5825 5830-5831 5833 5899 5901 5905 5907 6085 6087 6140
""",
    "n": """
    1 6-7 11 29-40 43-45 5256 5599 5625 5628 5827-5829 5832 5836 5900 5902 5917-5919 5921 5944
""",
    "i": "27 46-47 5634 5914-5915",
    "sn": "41",
    "s": "5607 5635-5636 5826",
    "nn": "5822-5823 5909 6080",
    "ss": "5834",
    "n*": "5835",
})
EXECUTION_MODE_OPERANDS = _table({
    "n": "0 26 30 35-36 4459-4463 5270 5618 5620-5623 5894 5896 5903 6154 6417",
    "": """
    1-12 14-16 19-25 27-29 31 33-34 4421 4446 5017 5027 5079-5084 5269 5289-5290 5298 5366-5371 5895 6023
""",
    "nnn": "17-18 5893",
    "i": "37",
    "iii": "38-39",
})
MEMORY_ACCESS_OPERANDS = _table({
    "": "0-1 4 32",
    "n": "2",
    "i": "8 16 65536 131072",
})
IMAGE_OPERANDS_OPERANDS = _table({
    "": "0 1024 2048 4096 8192 16384",
    "i": "1-2 8 16 32 64 128 256 512 65536",
    "ii": "4",
})
LOOP_CONTROL_OPERANDS = _table({
    "": "0-2 4 8388608",
    "n": "8 16 32 64 128 256 65536 131072 262144 524288 1048576 2097152 4194304 16777216 33554432",
})
# fmt: on
_NAMES: dict[int, str] = {}


def name(opcode: int) -> str:
    """The name of an opcode, e.g. "OpLoad"; "opcode 5699" for one that nothing here looks at."""
    if not _NAMES:
        _NAMES.update({value: key for key, value in globals().items() if key.startswith("Op")})
    return _NAMES.get(opcode, f"opcode {opcode}")
