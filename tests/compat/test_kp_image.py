"""Images: every format, copies between images and tensors, memory types, misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.compat import kp

Compile = Callable[..., bytes]
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")


def _format(dtype: np.dtype[Any], channels: int) -> tuple[str, str]:
    """Returns GLSL's names of the texel format and of the image type."""
    kind = {"f": ("f", ""), "i": ("i", "i"), "u": ("ui", "u")}[dtype.kind]
    return f"{'rgba'[:channels]}{8 * dtype.itemsize}{kind[0]}", f"{kind[1]}image2D"


def _declared(dtype: str, channels: int, n: int) -> str:
    texel, image = _format(np.dtype(dtype), channels)
    return "".join(f"layout(binding = {k}, {texel}) uniform {image} m{k};\n" for k in range(n))


DOUBLE = "ivec2 at = ivec2(gl_WorkGroupID.xy); imageStore(m1, at, imageLoad(m0, at) + imageLoad(m0, at));"


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_format(mgr: kp.Manager, spirv: Compile, dtype: str, channels: int) -> None:
    width, height = 5, 3
    data = np.arange(width * height * channels).astype(dtype)
    try:
        source, target = (mgr.image_t(item, width, height, channels) for item in (data, 0 * data))
    except vc.MissingFeature:
        with pytest.raises(vc.MissingFeature, match="cannot load, store and copy"):
            mgr.image_t(data, width, height, channels)
        return
    assert (source.size(), len(target)) == (data.size, data.size)
    assert source.data().dtype == data.dtype
    shader = spirv(DOUBLE, 0, _declared(dtype, channels, 2))
    algorithm = mgr.algorithm([source, target], shader, (width, height, 1))
    mgr.sequence().record(kp.OpSyncDevice([source])).record(kp.OpAlgoDispatch(algorithm)).record(
        kp.OpSyncLocal([target])
    ).eval()
    assert np.array_equal(target.data(), data + data)


def test_what_every_device_has(mgr: kp.Manager) -> None:
    for dtype, name in (("float32", "float"), ("int32", "int"), ("uint32", "uint")):
        for channels in (1, 4):
            image = mgr.image_t(np.zeros(4 * channels, dtype), 2, 2, channels)
            assert image.data_type() is kp.DataTypes[name]
            assert image.is_init()


def test_an_image_is_float32(mgr: kp.Manager) -> None:
    image = mgr.image([[1, 2], [3, 4]], 2, 2, 1)
    assert (image.data().dtype, image.data().tolist()) == (np.float32, [1, 2, 3, 4])
    assert image.memory_type() is kp.device
    assert repr(image) == "<kp.Image of 4 float32, device>"


@pytest.mark.parametrize("kind", list(kp.MemoryTypes))
def test_kinds_of_memory(any_mgr: kp.Manager, spirv: Compile, kind: kp.MemoryTypes) -> None:
    source, target = any_mgr.image([1, 2, 3, 4], 2, 2, 1, kind), any_mgr.image([0] * 4, 2, 2, 1)
    algorithm = any_mgr.algorithm([source, target], spirv(DOUBLE, 0, _declared("float32", 1, 2)), (2, 2, 1))
    sequence = any_mgr.sequence().record(kp.OpSyncDevice([source])).record(kp.OpAlgoDispatch(algorithm))
    sequence.record(kp.OpCopy([target, source])).record(kp.OpSyncLocal([source, target])).eval()
    assert target.data().tolist() == [2, 4, 6, 8]
    if kind is kp.storage:
        with pytest.raises(RuntimeError, match="storage"):
            source.data()
        return
    assert source.data().tolist() == [2, 4, 6, 8]
    source.data()[:] = 10
    sequence.eval()
    assert target.data().tolist() == [20] * 4


COPIES = st.lists(st.permutations(range(4)).map(lambda p: p[:2]), min_size=1, max_size=8)


@given(COPIES, st.sampled_from([(3, 2, 4), (1, 7, 1), (16, 1, 2)]), st.sampled_from(["float32", "int32", "uint32"]))
def test_copies_between_images_and_tensors(
    any_mgr: kp.Manager, copies: list[list[int]], extent: tuple[int, int, int], dtype: str
) -> None:
    size = int(np.prod(extent))
    model = [(np.arange(size) + 1000 * n).astype(dtype) for n in range(4)]
    memory: list[kp.Memory] = [any_mgr.tensor_t(item) for item in model[:2]]
    try:
        memory += [any_mgr.image_t(item, *extent) for item in model[2:]]
    except vc.MissingFeature:  # of two channels
        return
    any_mgr.sequence().eval(kp.OpSyncDevice(memory))
    sequence = any_mgr.sequence()
    for source, target in copies:
        sequence.record(kp.OpCopy([memory[source], memory[target]]))
        model[target] = model[source]
    sequence.record(kp.OpSyncLocal(memory)).eval()
    for each, expected in zip(memory, model, strict=True):
        assert np.array_equal(each.data(), expected)


def test_dispatches_on_images_are_ordered(mgr: kp.Manager, spirv: Compile) -> None:
    image = mgr.image([1, 2], 2, 1, 1)
    body = "ivec2 at = ivec2(gl_WorkGroupID.xy); imageStore(m0, at, imageLoad(m0, at) + 1);"
    add = kp.OpAlgoDispatch(mgr.algorithm([image], spirv(body, 0, _declared("float32", 1, 1))))
    sequence = mgr.sequence(0, 60).record(kp.OpSyncDevice([image]))
    for _ in range(50):
        sequence.record(add)
    sequence.record(kp.OpSyncLocal([image])).eval()
    assert image.data().tolist() == [51, 52]
    assert len(sequence.get_timestamps()) == 53


def test_what_is_no_image(mgr: kp.Manager, spirv: Compile) -> None:
    for size, extent, reason in (
        (12, (2, 2, 3), "1, 2 or 4 channels"),
        (3, (2, 2, 1), "4 numbers; got 3"),
        (0, (0, 2, 1), "at least one texel"),
    ):
        with pytest.raises(RuntimeError, match=reason):
            mgr.image(np.zeros(size), *extent)
    with pytest.raises(RuntimeError, match="optimal tiling"):
        mgr.image([1.0], 1, 1, 1, kp.host, kp.ImageTilings.optimal)
    with pytest.raises(TypeError, match="up to 32 bits"):
        mgr.image_t(np.zeros(4), 2, 2, 1)
    with pytest.raises(kp.KomputeError, match="a side"):
        mgr.image(np.zeros(1 << 20), 1 << 20, 1, 1)
    image, tensor = mgr.image([1.0], 1, 1, 1), mgr.tensor([1.0])
    shader, buffers = spirv(DOUBLE, 0, _declared("float32", 1, 2)), spirv("v0[i] += v1[i];", 2)
    with pytest.raises(RuntimeError, match="is R32f; got a tensor"):
        mgr.algorithm([image, tensor], shader)
    with pytest.raises(RuntimeError, match="is R32f; got R32ui"):
        mgr.algorithm([image, mgr.image_t(np.zeros(1, np.uint32), 1, 1, 1)], shader)
    with pytest.raises(RuntimeError, match="is a tensor; got R32f"):
        mgr.algorithm([tensor, image], buffers)
    with pytest.raises(vc.MissingFeature, match="storage_image"):
        mgr.runtime.kernel(shader)


@pytest.mark.usefixtures("clean_handles")
@pytest.mark.parametrize("first", ["image", "manager", "sequence", "nothing"])
def test_nothing_is_left_of_images(spirv: Compile, first: str) -> None:
    manager = kp.Manager()
    images = [manager.image(np.ones(64), 8, 8, 1) for _ in range(2)]
    shader = spirv(DOUBLE, 0, _declared("float32", 1, 2))
    sequence = manager.sequence().record(kp.OpAlgoDispatch(manager.algorithm(images, shader, (8, 8, 1)))).eval()
    sequence.eval_async()
    if first == "image":
        for image in images:
            image.destroy()
            image.destroy()
            assert not image.is_init()
        sequence.eval_await()
        with pytest.raises(RuntimeError, match="destroyed"):
            sequence.eval()
    elif first == "manager":
        manager.destroy()
        assert not images[0].is_init()
    elif first == "sequence":
        sequence.destroy()
