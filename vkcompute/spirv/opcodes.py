"""Every SPIR-V opcode, with the shape of its operands.

Written by tools/generate_spirv_tables.py from the grammar of SPIR-V 1.6 revision 1; change the program instead.

A shape has one letter per operand: T result type, R result, i id, n literal word, s string, N literal number to the
end, O opcode of OpSpecConstantOp, p pair (id, id), P pair (literal, id), Q pair (id, literal), and enumerants that
bring operands of their own: D Decoration, X ExecutionMode, M MemoryAccess, I ImageOperands, L LoopControl. ? is an
optional operand, * is any number of them.
"""

from __future__ import annotations

SHAPES: dict[int, str] = {}


def _op(opcode: int, shape: str) -> int:
    SHAPES[opcode] = shape
    return opcode


OpNop = _op(0, "")
OpUndef = _op(1, "TR")
OpSourceContinued = _op(2, "s")
OpSource = _op(3, "nni?s?")
OpSourceExtension = _op(4, "s")
OpName = _op(5, "is")
OpMemberName = _op(6, "ins")
OpString = _op(7, "Rs")
OpLine = _op(8, "inn")
OpExtension = _op(10, "s")
OpExtInstImport = _op(11, "Rs")
OpExtInst = _op(12, "TRini*")
OpMemoryModel = _op(14, "nn")
OpEntryPoint = _op(15, "nisi*")
OpExecutionMode = _op(16, "iX")
OpCapability = _op(17, "n")
OpTypeVoid = _op(19, "R")
OpTypeBool = _op(20, "R")
OpTypeInt = _op(21, "Rnn")
OpTypeFloat = _op(22, "Rnn?")
OpTypeVector = _op(23, "Rin")
OpTypeMatrix = _op(24, "Rin")
OpTypeImage = _op(25, "Rinnnnnnn?")
OpTypeSampler = _op(26, "R")
OpTypeSampledImage = _op(27, "Ri")
OpTypeArray = _op(28, "Rii")
OpTypeRuntimeArray = _op(29, "Ri")
OpTypeStruct = _op(30, "Ri*")
OpTypePointer = _op(32, "Rni")
OpTypeFunction = _op(33, "Rii*")
OpTypeForwardPointer = _op(39, "in")
OpConstantTrue = _op(41, "TR")
OpConstantFalse = _op(42, "TR")
OpConstant = _op(43, "TRN")
OpConstantComposite = _op(44, "TRi*")
OpConstantNull = _op(46, "TR")
OpSpecConstantTrue = _op(48, "TR")
OpSpecConstantFalse = _op(49, "TR")
OpSpecConstant = _op(50, "TRN")
OpSpecConstantComposite = _op(51, "TRi*")
OpSpecConstantOp = _op(52, "TRO")
OpFunction = _op(54, "TRni")
OpFunctionParameter = _op(55, "TR")
OpFunctionEnd = _op(56, "")
OpFunctionCall = _op(57, "TRii*")
OpVariable = _op(59, "TRni?")
OpImageTexelPointer = _op(60, "TRiii")
OpLoad = _op(61, "TRiM?")
OpStore = _op(62, "iiM?")
OpCopyMemory = _op(63, "iiM?M?")
OpCopyMemorySized = _op(64, "iiiM?M?")
OpAccessChain = _op(65, "TRii*")
OpInBoundsAccessChain = _op(66, "TRii*")
OpPtrAccessChain = _op(67, "TRiii*")
OpArrayLength = _op(68, "TRin")
OpInBoundsPtrAccessChain = _op(70, "TRiii*")
OpDecorate = _op(71, "iD")
OpMemberDecorate = _op(72, "inD")
OpDecorationGroup = _op(73, "R")
OpGroupDecorate = _op(74, "ii*")
OpGroupMemberDecorate = _op(75, "iQ*")
OpVectorExtractDynamic = _op(77, "TRii")
OpVectorInsertDynamic = _op(78, "TRiii")
OpVectorShuffle = _op(79, "TRiin*")
OpCompositeConstruct = _op(80, "TRi*")
OpCompositeExtract = _op(81, "TRin*")
OpCompositeInsert = _op(82, "TRiin*")
OpCopyObject = _op(83, "TRi")
OpTranspose = _op(84, "TRi")
OpSampledImage = _op(86, "TRii")
OpImageSampleImplicitLod = _op(87, "TRiiI?")
OpImageSampleExplicitLod = _op(88, "TRiiI")
OpImageSampleDrefImplicitLod = _op(89, "TRiiiI?")
OpImageSampleDrefExplicitLod = _op(90, "TRiiiI")
OpImageSampleProjImplicitLod = _op(91, "TRiiI?")
OpImageSampleProjExplicitLod = _op(92, "TRiiI")
OpImageSampleProjDrefImplicitLod = _op(93, "TRiiiI?")
OpImageSampleProjDrefExplicitLod = _op(94, "TRiiiI")
OpImageFetch = _op(95, "TRiiI?")
OpImageGather = _op(96, "TRiiiI?")
OpImageDrefGather = _op(97, "TRiiiI?")
OpImageRead = _op(98, "TRiiI?")
OpImageWrite = _op(99, "iiiI?")
OpImage = _op(100, "TRi")
OpImageQuerySizeLod = _op(103, "TRii")
OpImageQuerySize = _op(104, "TRi")
OpImageQueryLod = _op(105, "TRii")
OpImageQueryLevels = _op(106, "TRi")
OpImageQuerySamples = _op(107, "TRi")
OpConvertFToU = _op(109, "TRi")
OpConvertFToS = _op(110, "TRi")
OpConvertSToF = _op(111, "TRi")
OpConvertUToF = _op(112, "TRi")
OpUConvert = _op(113, "TRi")
OpSConvert = _op(114, "TRi")
OpFConvert = _op(115, "TRi")
OpQuantizeToF16 = _op(116, "TRi")
OpConvertPtrToU = _op(117, "TRi")
OpConvertUToPtr = _op(120, "TRi")
OpBitcast = _op(124, "TRi")
OpSNegate = _op(126, "TRi")
OpFNegate = _op(127, "TRi")
OpIAdd = _op(128, "TRii")
OpFAdd = _op(129, "TRii")
OpISub = _op(130, "TRii")
OpFSub = _op(131, "TRii")
OpIMul = _op(132, "TRii")
OpFMul = _op(133, "TRii")
OpUDiv = _op(134, "TRii")
OpSDiv = _op(135, "TRii")
OpFDiv = _op(136, "TRii")
OpUMod = _op(137, "TRii")
OpSRem = _op(138, "TRii")
OpSMod = _op(139, "TRii")
OpFRem = _op(140, "TRii")
OpFMod = _op(141, "TRii")
OpVectorTimesScalar = _op(142, "TRii")
OpMatrixTimesScalar = _op(143, "TRii")
OpVectorTimesMatrix = _op(144, "TRii")
OpMatrixTimesVector = _op(145, "TRii")
OpMatrixTimesMatrix = _op(146, "TRii")
OpOuterProduct = _op(147, "TRii")
OpDot = _op(148, "TRii")
OpIAddCarry = _op(149, "TRii")
OpISubBorrow = _op(150, "TRii")
OpUMulExtended = _op(151, "TRii")
OpSMulExtended = _op(152, "TRii")
OpAny = _op(154, "TRi")
OpAll = _op(155, "TRi")
OpIsNan = _op(156, "TRi")
OpIsInf = _op(157, "TRi")
OpLogicalEqual = _op(164, "TRii")
OpLogicalNotEqual = _op(165, "TRii")
OpLogicalOr = _op(166, "TRii")
OpLogicalAnd = _op(167, "TRii")
OpLogicalNot = _op(168, "TRi")
OpSelect = _op(169, "TRiii")
OpIEqual = _op(170, "TRii")
OpINotEqual = _op(171, "TRii")
OpUGreaterThan = _op(172, "TRii")
OpSGreaterThan = _op(173, "TRii")
OpUGreaterThanEqual = _op(174, "TRii")
OpSGreaterThanEqual = _op(175, "TRii")
OpULessThan = _op(176, "TRii")
OpSLessThan = _op(177, "TRii")
OpULessThanEqual = _op(178, "TRii")
OpSLessThanEqual = _op(179, "TRii")
OpFOrdEqual = _op(180, "TRii")
OpFUnordEqual = _op(181, "TRii")
OpFOrdNotEqual = _op(182, "TRii")
OpFUnordNotEqual = _op(183, "TRii")
OpFOrdLessThan = _op(184, "TRii")
OpFUnordLessThan = _op(185, "TRii")
OpFOrdGreaterThan = _op(186, "TRii")
OpFUnordGreaterThan = _op(187, "TRii")
OpFOrdLessThanEqual = _op(188, "TRii")
OpFUnordLessThanEqual = _op(189, "TRii")
OpFOrdGreaterThanEqual = _op(190, "TRii")
OpFUnordGreaterThanEqual = _op(191, "TRii")
OpShiftRightLogical = _op(194, "TRii")
OpShiftRightArithmetic = _op(195, "TRii")
OpShiftLeftLogical = _op(196, "TRii")
OpBitwiseOr = _op(197, "TRii")
OpBitwiseXor = _op(198, "TRii")
OpBitwiseAnd = _op(199, "TRii")
OpNot = _op(200, "TRi")
OpBitFieldInsert = _op(201, "TRiiii")
OpBitFieldSExtract = _op(202, "TRiii")
OpBitFieldUExtract = _op(203, "TRiii")
OpBitReverse = _op(204, "TRi")
OpBitCount = _op(205, "TRi")
OpDPdx = _op(207, "TRi")
OpDPdy = _op(208, "TRi")
OpFwidth = _op(209, "TRi")
OpDPdxFine = _op(210, "TRi")
OpDPdyFine = _op(211, "TRi")
OpFwidthFine = _op(212, "TRi")
OpDPdxCoarse = _op(213, "TRi")
OpDPdyCoarse = _op(214, "TRi")
OpFwidthCoarse = _op(215, "TRi")
OpEmitVertex = _op(218, "")
OpEndPrimitive = _op(219, "")
OpEmitStreamVertex = _op(220, "i")
OpEndStreamPrimitive = _op(221, "i")
OpControlBarrier = _op(224, "iii")
OpMemoryBarrier = _op(225, "ii")
OpAtomicLoad = _op(227, "TRiii")
OpAtomicStore = _op(228, "iiii")
OpAtomicExchange = _op(229, "TRiiii")
OpAtomicCompareExchange = _op(230, "TRiiiiii")
OpAtomicIIncrement = _op(232, "TRiii")
OpAtomicIDecrement = _op(233, "TRiii")
OpAtomicIAdd = _op(234, "TRiiii")
OpAtomicISub = _op(235, "TRiiii")
OpAtomicSMin = _op(236, "TRiiii")
OpAtomicUMin = _op(237, "TRiiii")
OpAtomicSMax = _op(238, "TRiiii")
OpAtomicUMax = _op(239, "TRiiii")
OpAtomicAnd = _op(240, "TRiiii")
OpAtomicOr = _op(241, "TRiiii")
OpAtomicXor = _op(242, "TRiiii")
OpPhi = _op(245, "TRp*")
OpLoopMerge = _op(246, "iiL")
OpSelectionMerge = _op(247, "in")
OpLabel = _op(248, "R")
OpBranch = _op(249, "i")
OpBranchConditional = _op(250, "iiin*")
OpSwitch = _op(251, "iiP*")
OpKill = _op(252, "")
OpReturn = _op(253, "")
OpReturnValue = _op(254, "i")
OpUnreachable = _op(255, "")
OpGroupAll = _op(261, "TRii")
OpGroupAny = _op(262, "TRii")
OpGroupBroadcast = _op(263, "TRiii")
OpGroupIAdd = _op(264, "TRini")
OpGroupFAdd = _op(265, "TRini")
OpGroupFMin = _op(266, "TRini")
OpGroupUMin = _op(267, "TRini")
OpGroupSMin = _op(268, "TRini")
OpGroupFMax = _op(269, "TRini")
OpGroupUMax = _op(270, "TRini")
OpGroupSMax = _op(271, "TRini")
OpImageSparseSampleImplicitLod = _op(305, "TRiiI?")
OpImageSparseSampleExplicitLod = _op(306, "TRiiI")
OpImageSparseSampleDrefImplicitLod = _op(307, "TRiiiI?")
OpImageSparseSampleDrefExplicitLod = _op(308, "TRiiiI")
OpImageSparseSampleProjImplicitLod = _op(309, "TRiiI?")
OpImageSparseSampleProjExplicitLod = _op(310, "TRiiI")
OpImageSparseSampleProjDrefImplicitLod = _op(311, "TRiiiI?")
OpImageSparseSampleProjDrefExplicitLod = _op(312, "TRiiiI")
OpImageSparseFetch = _op(313, "TRiiI?")
OpImageSparseGather = _op(314, "TRiiiI?")
OpImageSparseDrefGather = _op(315, "TRiiiI?")
OpImageSparseTexelsResident = _op(316, "TRi")
OpNoLine = _op(317, "")
OpImageSparseRead = _op(320, "TRiiI?")
OpSizeOf = _op(321, "TRi")
OpModuleProcessed = _op(330, "s")
OpExecutionModeId = _op(331, "iX")
OpDecorateId = _op(332, "iD")
OpGroupNonUniformElect = _op(333, "TRi")
OpGroupNonUniformAll = _op(334, "TRii")
OpGroupNonUniformAny = _op(335, "TRii")
OpGroupNonUniformAllEqual = _op(336, "TRii")
OpGroupNonUniformBroadcast = _op(337, "TRiii")
OpGroupNonUniformBroadcastFirst = _op(338, "TRii")
OpGroupNonUniformBallot = _op(339, "TRii")
OpGroupNonUniformInverseBallot = _op(340, "TRii")
OpGroupNonUniformBallotBitExtract = _op(341, "TRiii")
OpGroupNonUniformBallotBitCount = _op(342, "TRini")
OpGroupNonUniformBallotFindLSB = _op(343, "TRii")
OpGroupNonUniformBallotFindMSB = _op(344, "TRii")
OpGroupNonUniformShuffle = _op(345, "TRiii")
OpGroupNonUniformShuffleXor = _op(346, "TRiii")
OpGroupNonUniformShuffleUp = _op(347, "TRiii")
OpGroupNonUniformShuffleDown = _op(348, "TRiii")
OpGroupNonUniformIAdd = _op(349, "TRinii?")
OpGroupNonUniformFAdd = _op(350, "TRinii?")
OpGroupNonUniformIMul = _op(351, "TRinii?")
OpGroupNonUniformFMul = _op(352, "TRinii?")
OpGroupNonUniformSMin = _op(353, "TRinii?")
OpGroupNonUniformUMin = _op(354, "TRinii?")
OpGroupNonUniformFMin = _op(355, "TRinii?")
OpGroupNonUniformSMax = _op(356, "TRinii?")
OpGroupNonUniformUMax = _op(357, "TRinii?")
OpGroupNonUniformFMax = _op(358, "TRinii?")
OpGroupNonUniformBitwiseAnd = _op(359, "TRinii?")
OpGroupNonUniformBitwiseOr = _op(360, "TRinii?")
OpGroupNonUniformBitwiseXor = _op(361, "TRinii?")
OpGroupNonUniformLogicalAnd = _op(362, "TRinii?")
OpGroupNonUniformLogicalOr = _op(363, "TRinii?")
OpGroupNonUniformLogicalXor = _op(364, "TRinii?")
OpGroupNonUniformQuadBroadcast = _op(365, "TRiii")
OpGroupNonUniformQuadSwap = _op(366, "TRiii")
OpCopyLogical = _op(400, "TRi")
OpPtrEqual = _op(401, "TRii")
OpPtrNotEqual = _op(402, "TRii")
OpPtrDiff = _op(403, "TRii")
OpTerminateInvocation = _op(4416, "")
OpTypeUntypedPointerKHR = _op(4417, "Rn")
OpUntypedVariableKHR = _op(4418, "TRni?i?")
OpUntypedAccessChainKHR = _op(4419, "TRiii*")
OpUntypedInBoundsAccessChainKHR = _op(4420, "TRiii*")
OpSubgroupBallotKHR = _op(4421, "TRi")
OpSubgroupFirstInvocationKHR = _op(4422, "TRi")
OpUntypedPtrAccessChainKHR = _op(4423, "TRiiii*")
OpUntypedInBoundsPtrAccessChainKHR = _op(4424, "TRiiii*")
OpUntypedArrayLengthKHR = _op(4425, "TRiin")
OpUntypedPrefetchKHR = _op(4426, "iii?i?i?")
OpFmaKHR = _op(4427, "TRiii")
OpSubgroupAllKHR = _op(4428, "TRi")
OpSubgroupAnyKHR = _op(4429, "TRi")
OpSubgroupAllEqualKHR = _op(4430, "TRi")
OpGroupNonUniformRotateKHR = _op(4431, "TRiiii?")
OpSubgroupReadInvocationKHR = _op(4432, "TRii")
OpExtInstWithForwardRefsKHR = _op(4433, "TRini*")
OpSDot = _op(4450, "TRiin?")
OpUDot = _op(4451, "TRiin?")
OpSUDot = _op(4452, "TRiin?")
OpSDotAccSat = _op(4453, "TRiiin?")
OpUDotAccSat = _op(4454, "TRiiin?")
OpSUDotAccSat = _op(4455, "TRiiin?")
OpTypeCooperativeMatrixKHR = _op(4456, "Riiiii")
OpCooperativeMatrixLoadKHR = _op(4457, "TRiii?M?")
OpCooperativeMatrixStoreKHR = _op(4458, "iiii?M?")
OpCooperativeMatrixMulAddKHR = _op(4459, "TRiiin?")
OpCooperativeMatrixLengthKHR = _op(4460, "TRi")
OpConstantCompositeReplicateEXT = _op(4461, "TRi")
OpSpecConstantCompositeReplicateEXT = _op(4462, "TRi")
OpCompositeConstructReplicateEXT = _op(4463, "TRi")
OpReadClockKHR = _op(5056, "TRi")
OpGroupNonUniformQuadAllKHR = _op(5110, "TRi")
OpGroupNonUniformQuadAnyKHR = _op(5111, "TRi")
OpCooperativeMatrixConvertNV = _op(5293, "TRi")
OpDemoteToHelperInvocation = _op(5380, "")
OpIsHelperInvocationEXT = _op(5381, "TR")
OpCooperativeMatrixTransposeNV = _op(5390, "TRi")
OpRawAccessChainNV = _op(5398, "TRiiiin?")
OpAtomicFMinEXT = _op(5614, "TRiiii")
OpAtomicFMaxEXT = _op(5615, "TRiiii")
OpAssumeTrueKHR = _op(5630, "i")
OpExpectKHR = _op(5631, "TRii")
OpDecorateString = _op(5632, "iD")
OpMemberDecorateString = _op(5633, "inD")
OpAtomicFAddEXT = _op(6035, "TRiiii")
OpGroupIMulKHR = _op(6401, "TRini")
OpGroupFMulKHR = _op(6402, "TRini")
OpGroupBitwiseAndKHR = _op(6403, "TRini")
OpGroupBitwiseOrKHR = _op(6404, "TRini")
OpGroupBitwiseXorKHR = _op(6405, "TRini")
OpGroupLogicalAndKHR = _op(6406, "TRini")
OpGroupLogicalOrKHR = _op(6407, "TRini")
OpGroupLogicalXorKHR = _op(6408, "TRini")

# Opcodes that no Vulkan compute shader of ours emits: known, so that a module with them can be read.
# fmt: off
_OTHERS = {  # shape: opcodes
    "Rs": "31",
    "R": "34 35 36 37 322 327 4472 5281 5341 5701 5702 5703 5704 5705 5706 5707 5708 5709 5710 5711 5712",
    "Rn": "38 6086",
    "TRnnn": "45 323",
    "TRi": """
        69 101 102 118 119 121 122 158 159 160 282 300 324 328 4447 4477 5252 5253 5254 5255 5257 5258 5265 5267 5268
        5269 5270 5271 5272 5273 5274 5275 5276 5277 5278 5296 5362 5391 5392 5393 5394 5395 5396 5575 5585 5586 5600
        5728 5732 5733 5734 5735 5736 5737 5738 5739 5740 5741 5742 5743 5744 5745 5752 5754 5765 5766 5767 5768 5769
        5777 5778 5779 5780 5783 5784 5785 5790 5791 5796 5800 5808 5809 5810 5811 5812 5813 5814 5815 5816 5818 5934
        5938 6016 6017 6026 6029 6030
    """,
    "TRin": "123",
    "TRii": """
        161 162 163 4479 5011 5334 5571 5574 5577 5587 5588 5589 5590 5591 5592 5593 5594 5595 5596 5597 5598 5699
        5713 5714 5715 5716 5717 5718 5719 5720 5725 5729 5730 5750 5753 5755 5756 5770 5771 5772 5776 5795 5797 5799
        5801 5802 5803 5946 5947 5949 6018 6019 6020 6021 6022 6023 6024 6025 6027 6028 6031 6032
    """,
    "TRiiiiii": "231 259 276 277 5792",
    "in": "256 257",
    "iii": "260 302 319 329 5578 6142 6143",
    "TRiiii": "274 275 278 279 291 295 296 326 5580 5724 5749 5751 5758 5759 5762 5763 5787 5789 5798 5805 5807",
    "iiii": "280 281",
    "TRiii": "283 284 304 318 5012 5361 5572 5573 5731 5746 5747 5748 5757 5761 5773 5774 5775 5786 5788 5804 5806",
    "TRiiiii": "285 286 293 294 325 5760 5764",
    "iiiii": "287 288 5581",
    "TRiiiiiiiiiii*": "292",
    "i": "297 298 4474 4476 5259 5820",
    "TR": "299 303 5721 5722 5723 5726 5727 5819",
    "ii": "301 4446 4475 5264 5266 5280 5295 5299 5344 5576",
    "iiiiiiiiiii": "4445 5337",
    "": "4448 4449 5335 5336 5364 5365",
    "iiiiiiii": "4473",
    "TRini": "5000 5001 5002 5003 5004 5005 5006 5007",
    "iiiiiiiiiiiiii": "5249",
    "iiiiiiiiiiiii": "5250 5256 5261",
    "iiiiiii": "5251",
    "iiiiiiiiiiii": "5260 5262 5338 5339",
    "iiiiii": "5263",
    "ii?i?": "5279",
    "TRiiiiI?": "5283",
    "iiii?": "5294",
    "Riiii": "5358",
    "TRiiiM?": "5359",
    "iiiiM?": "5360",
    "n": "5397",
    "TRi*": "5601",
    "TRs": "5609",
    "TRiiss": "5610",
    "TRii*": "5611",
    "Ri": "5700",
    "TRiiiiiii": "5781",
    "TRiiiiiiii": "5782 5793",
    "TRiiiiiiiiiii": "5794",
    "TRinnnnnn": "5840",
    "TRinnnnn": """
        5841 5842 5855 5856 5857 5859 5860 5861 5862 5863 5864 5865 5866 5867 5868 5869 5870 5871 5872 5873 5874 5875
        5876 5877 5878
    """,
    "TRinnnn": "5843",
    "TRininnnnn": "5846 5847 5848 5849 5858 5879 5880 5881",
    "TRinin": "5850 5851 5852 5853 5854",
    "TRininnnn": "5882",
    "n*": "5887",
    "Ri?": "5911",
    "Rii?": "5912",
    "Ri*": "5913",
    "TRiinnnnn": "5923 5924 5925 5926 5927 5928 5929 5930 5931 5932 5933",
    "i*": "6090 6091 6092",
}
for _shape, _numbers in _OTHERS.items():
    SHAPES.update(dict.fromkeys(map(int, _numbers.split()), _shape))

# Types and constants: they stand outside of functions.
DECLARED: frozenset[int] = frozenset(
    map(
        int,
        """
        19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 41 42 43 44 45 46 48 49 50 51 52 322 323 327
        4417 4456 4461 4462 4472 5281 5341 5358 5600 5700 5701 5702 5703 5704 5705 5706 5707 5708 5709 5710 5711 5712
        6086 6090 6091 6092
        """.split(),
    )
)
# Operands that an enumerant brings with it; of a mask, each bit in ascending order.
DECORATION_OPERANDS: dict[int, str] = {
    0: "", 1: "n", 2: "", 3: "", 4: "", 5: "", 6: "n", 7: "n", 8: "", 9: "", 10: "", 11: "n", 13: "", 14: "", 15: "",
    16: "", 17: "", 18: "", 19: "", 20: "", 21: "", 22: "", 23: "", 24: "", 25: "", 26: "", 27: "i", 28: "", 29: "n",
    30: "n", 31: "n", 32: "n", 33: "n", 34: "n", 35: "n", 36: "n", 37: "n", 38: "n", 39: "n", 40: "n", 41: "sn",
    42: "", 43: "n", 44: "n", 45: "n", 46: "i", 47: "i", 4469: "", 4470: "", 4999: "", 5248: "", 5250: "", 5252: "",
    5256: "n", 5271: "", 5272: "", 5273: "", 5285: "", 5300: "", 5355: "", 5356: "", 5386: "", 5398: "", 5399: "",
    5400: "", 5401: "", 5599: "n", 5602: "", 5607: "s", 5608: "", 5624: "", 5625: "n", 5626: "", 5627: "", 5628: "n",
    5634: "i", 5635: "s", 5636: "s", 5822: "nn", 5823: "nn", 5825: "", 5826: "s", 5827: "n", 5828: "n", 5829: "n",
    5830: "", 5831: "", 5832: "n", 5833: "", 5834: "ss", 5835: "n*", 5836: "n", 5899: "", 5900: "n", 5901: "",
    5902: "n", 5905: "", 5907: "", 5909: "nn", 5914: "i", 5915: "i", 5917: "n", 5918: "n", 5919: "n", 5921: "n",
    5944: "n", 6080: "nn", 6085: "", 6087: "", 6140: "",
}
EXECUTION_MODE_OPERANDS: dict[int, str] = {
    0: "n", 1: "", 2: "", 3: "", 4: "", 5: "", 6: "", 7: "", 8: "", 9: "", 10: "", 11: "", 12: "", 14: "", 15: "",
    16: "", 17: "nnn", 18: "nnn", 19: "", 20: "", 21: "", 22: "", 23: "", 24: "", 25: "", 26: "n", 27: "", 28: "",
    29: "", 30: "n", 31: "", 33: "", 34: "", 35: "n", 36: "n", 37: "i", 38: "iii", 39: "iii", 4421: "", 4446: "",
    4459: "n", 4460: "n", 4461: "n", 4462: "n", 4463: "n", 5017: "", 5027: "", 5079: "", 5080: "", 5081: "", 5082: "",
    5083: "", 5084: "", 5269: "", 5270: "n", 5289: "", 5290: "", 5298: "", 5366: "", 5367: "", 5368: "", 5369: "",
    5370: "", 5371: "", 5618: "n", 5620: "n", 5621: "n", 5622: "n", 5623: "n", 5893: "nnn", 5894: "n", 5895: "",
    5896: "n", 5903: "n", 6023: "", 6154: "n", 6417: "n",
}
MEMORY_ACCESS_OPERANDS: dict[int, str] = {
    0: "", 1: "", 2: "n", 4: "", 8: "i", 16: "i", 32: "", 65536: "i", 131072: "i",
}
IMAGE_OPERANDS_OPERANDS: dict[int, str] = {
    0: "", 1: "i", 2: "i", 4: "ii", 8: "i", 16: "i", 32: "i", 64: "i", 128: "i", 256: "i", 512: "i", 1024: "",
    2048: "", 4096: "", 8192: "", 16384: "", 65536: "i",
}
LOOP_CONTROL_OPERANDS: dict[int, str] = {
    0: "", 1: "", 2: "", 4: "", 8: "n", 16: "n", 32: "n", 64: "n", 128: "n", 256: "n", 65536: "n", 131072: "n",
    262144: "n", 524288: "n", 1048576: "n", 2097152: "n", 4194304: "n", 8388608: "", 16777216: "n", 33554432: "n",
}
# fmt: on
_NAMES: dict[int, str] = {}


def name(opcode: int) -> str:
    """The name of an opcode, e.g. "OpLoad"; "opcode 5699" for one outside of the named ones."""
    if not _NAMES:
        _NAMES.update({value: key for key, value in globals().items() if key.startswith("Op")})
    return _NAMES.get(opcode, f"opcode {opcode}")
