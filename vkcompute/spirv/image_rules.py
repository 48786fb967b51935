"""Validation rules for images: their types, coordinates and texels."""

from __future__ import annotations

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Dim, StorageClass
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.values import Rule, Values, fail

_COORDINATES = {Dim.Dim2D: 2, Dim.Dim3D: 3, Dim.Cube: 3, Dim.Rect: 2, Dim.SubpassData: 2}


def _image_type(instruction: Instruction, values: Values) -> None:
    _, part, _, depth, arrayed, multisampled, sampled, *_ = instruction.operands
    if values.definition(part).opcode not in (op.OpTypeInt, op.OpTypeFloat, op.OpTypeVoid):
        fail(instruction, f"texels of {values.definition(part)}")
    if depth > 2 or arrayed > 1 or multisampled > 1 or sampled > 2:
        fail(instruction, f"depth {depth}, arrayed {arrayed}, multisampled {multisampled}, sampled {sampled}")


def _sampled_image_type(instruction: Instruction, values: Values) -> None:
    if values.definition(instruction.operands[1]).opcode != op.OpTypeImage:
        fail(instruction, f"of {values.definition(instruction.operands[1])}, which is not an image type")


def _texels(text: str) -> Rule:
    """Rule for image instructions: components of the result ("-" for none), image or sampled image, coordinate."""

    def rule(instruction: Instruction, values: Values) -> None:
        start = 0 if text[0] == "-" else 2
        image, coordinate = (values.types[operand] for operand in instruction.operands[start : start + 2])
        kind = values.definition(image)
        if kind.opcode != (op.OpTypeSampledImage if text[1] == "H" else op.OpTypeImage):
            fail(instruction, f"its image is {kind}")
        if text[1] == "H":
            kind = values.definition(kind.operands[1])
        _, sampled, dim, _, arrayed, *_ = kind.operands
        position = values.shape(coordinate)
        if position.base != text[2] or position.length < _COORDINATES.get(dim, 1) + arrayed + (text[3:] == "q"):
            fail(instruction, "its coordinate does not fit the image")
        texel = values.types[instruction.operands[2]] if start == 0 else instruction.operands[0]
        shape, void = values.shape(texel), values.definition(sampled).opcode == op.OpTypeVoid
        if not shape.base or (text[0] in "14" and shape.length != int(text[0])):
            fail(instruction, f"texels of {values.definition(texel)}")
        if not void and (shape.base, shape.width) != values.shape(sampled)[:2]:
            fail(instruction, "texels of another type than the image's")

    return rule


def _texel_pointer(instruction: Instruction, values: Values) -> None:
    result, _, pointer, coordinate, sample = instruction.operands
    kind, image = values.definition(result), values.definition(values.pointee(instruction, pointer))
    if (
        image.opcode != op.OpTypeImage
        or kind.opcode != op.OpTypePointer
        or kind.operands[1:]
        != (
            StorageClass.Image,
            image.operands[1],
        )
    ):
        fail(instruction, "its result is not an Image pointer to a texel of an image")
    shape = values.shape(values.types[coordinate])
    if shape.base != "i" or shape.length != _COORDINATES.get(image.operands[2], 1) + image.operands[4]:
        fail(instruction, "its coordinate does not fit the image")
    if values.shape(values.types[sample])[::2] != ("i", 1):
        fail(instruction, "its sample is not an integer")


def _sampled_image(instruction: Instruction, values: Values) -> None:
    result, _, image, sampler = instruction.operands
    kind = values.definition(result)
    if kind.opcode != op.OpTypeSampledImage or kind.operands[1] != values.types[image]:
        fail(instruction, "its result is not a sampled image of its image")
    if values.type_of(sampler).opcode != op.OpTypeSampler:
        fail(instruction, f"id {sampler} is not a sampler")


def _image(instruction: Instruction, values: Values) -> None:
    kind = values.type_of(instruction.operands[2])
    if kind.opcode != op.OpTypeSampledImage or kind.operands[1] != instruction.operands[0]:
        fail(instruction, "its result is not the image of a sampled image")


_TEXELS = {
    "4Hf": "SampleImplicitLod SampleExplicitLod Gather",
    "1Hf": "SampleDrefImplicitLod SampleDrefExplicitLod",
    "4Hfq": "SampleProjImplicitLod SampleProjExplicitLod",
    "1Hfq": "SampleProjDrefImplicitLod SampleProjDrefExplicitLod",
    "4Gi": "Fetch",
    "4Hf ": "DrefGather",
    "*Gi": "Read",
    "-Gi": "Write",
}
RULES: dict[str, Rule] = {
    "TypeImage": _image_type,
    "TypeSampledImage": _sampled_image_type,
    "ImageTexelPointer": _texel_pointer,
    "SampledImage": _sampled_image,
    "Image": _image,
    **{" ".join(f"Image{name}" for name in names.split()): _texels(text.strip()) for text, names in _TEXELS.items()},
}
"""Names of opcodes -> rule."""
