"""Kompute 0.7: GLSL compiled by `kp.Shader`, and the constants that an algorithm was made with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compat import kp, kp05

HEAD = """#version 450
layout(local_size_x = 1) in;
layout(constant_id = 0) const float factor = 1;
layout(constant_id = 1) const float offset = 0;
layout(push_constant) uniform Push { float scale; };
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
"""
MAIN = """void main() {
    uint i = gl_GlobalInvocationID.x;
    b[i] = factor * a[i] * scale + offset SUFFIX;
}
"""


@pytest.fixture
def pair(mgr: kp.Manager) -> list[kp.Tensor]:
    return [mgr.tensor([1, 2, 3]), mgr.tensor([0, 0, 0])]


def result(mgr: kp.Manager, pair: list[kp.Tensor], algorithm: kp.Algorithm, *push: Any) -> list[float]:
    sequence = mgr.sequence().record(kp.OpTensorSyncDevice(pair)).record(kp.OpAlgoDispatch(algorithm, *push))
    sequence.record(kp.OpTensorSyncLocal(pair[1:])).eval()
    computed: list[float] = pair[1].data().tolist()
    return computed


def test_a_program_of_kompute_0_7(mgr: kp.Manager, pair: list[kp.Tensor]) -> None:
    spirv = kp.Shader.compile_source(HEAD + MAIN.replace("SUFFIX", ""))
    algorithm = mgr.algorithm(pair, spirv, (3, 1, 1), [2, 0.5], [10])
    assert algorithm.get_spec_consts() == [2.0, 0.5]
    assert result(mgr, pair, algorithm) == [20.5, 40.5, 60.5]
    assert result(mgr, pair, algorithm, [100]) == [200.5, 400.5, 600.5]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), []),
        ([2, 0.5, 7], [2, 0.5, 7]),
        (np.float32([2, 0.5]), [2, 0.5]),
        (np.array((2, 0.5), [("x", "f4"), ("y", "f8")]), [2, 0.5]),
    ],
)
def test_spec_consts_are_those_given(mgr: kp.Manager, product: bytes, given: Any, expected: list[float]) -> None:
    """All values are returned in the order of their ids, declared by the shader or not, also after `destroy`."""
    algorithm = mgr.algorithm([mgr.tensor([1])] * 3, product, (), given)
    result = algorithm.get_spec_consts()
    assert result == expected
    assert not any(isinstance(item, np.generic) for item in result)
    result.append(0)
    algorithm.destroy()
    assert algorithm.get_spec_consts() == expected


def test_opmult_has_no_spec_consts(mgr: kp.Manager, product: bytes) -> None:
    tensors = [mgr.tensor([1]) for _ in range(3)]
    algorithm = mgr.algorithm(tensors, product, (), [1.0])
    kp.OpMult(tensors, algorithm)
    assert algorithm.get_spec_consts() == mgr.algorithm().get_spec_consts() == []


def test_definitions_and_several_sources(mgr: kp.Manager, pair: list[kp.Tensor]) -> None:
    definitions = [("SUFFIX", "+ 1000.0")]
    whole = kp.Shader.compile_source(HEAD + MAIN, "main", definitions)
    parts = kp.Shader.compile_sources([HEAD, MAIN], ["head.comp", "main.comp"], definitions=definitions)
    for spirv in (whole, parts, kp.Shader.compile_sources([HEAD, MAIN], [], "main", definitions)):
        assert result(mgr, pair, mgr.algorithm(pair, spirv, push_consts=[1.0])) == [1001, 1002, 1003]


@pytest.mark.parametrize("error", [RuntimeError, kp.KomputeError, vc.CompileError])
def test_source_that_does_not_compile(error: type[Exception]) -> None:
    """The error is a RuntimeError as in Kompute, with file and line."""
    with pytest.raises(error, match=r"<glsl>:7(.|\n)*nonsense"):
        kp.Shader.compile_source(HEAD.replace("layout(set = 0, binding = 1)", "nonsense"))
    with pytest.raises(error, match=r"all\.comp:7(.|\n)*nonsense"):
        kp.Shader.compile_sources([HEAD.replace("layout(set = 0, binding = 1)", "nonsense")], ["all.comp"])


def test_what_is_not_glsls_entry_point_or_has_other_names() -> None:
    with pytest.raises(ValueError, match='is "main"; got'):
        kp.Shader.compile_source(HEAD + MAIN, "other")
    with pytest.raises(ValueError, match="one name for each source; got 1 names for 2 sources"):
        kp.Shader.compile_sources([HEAD, MAIN], ["a.comp"])


# -- the names of each version ----------------------------------------------------------------------------------------

TENSOR = "data size __len__ tensor_type data_type is_init destroy"
SEQUENCE = "record eval eval_async eval_await is_recording is_running is_init clear rerecord get_timestamps destroy"
OPERATIONS = "OpBase OpTensorSyncDevice OpTensorSyncLocal OpTensorCopy OpAlgoDispatch OpMult"
OLD_TENSOR = (
    "data numpy __getitem__ __setitem__ set_data __iter__ __contains__ __reversed__ size __len__ tensor_type is_init "
    "map_data_from_host map_data_into_host"
)
OLD_OPERATIONS = "tensor_create tensor_copy tensor_sync_device tensor_sync_local algo_mult algo_file algo_data algo_lro"
OLD_SEQUENCE = "init begin end eval eval_async eval_await is_running is_rec is_init"
OLD_MANAGER = "get_create_sequence create_sequence build_tensor eval_await eval_await_def"
EVALUATIONS = [
    f"eval_{mode}{operation}{ending}"
    for operation in [*OLD_OPERATIONS.split(), "algo_str"]
    for mode in ("", "async_")
    for ending in ("", "_def")
]
NAMES: dict[str, tuple[Any, dict[str, str]]] = {
    "0.5 and 0.6": (
        kp05,
        {
            "": "log_level device staging storage",
            "Tensor": OLD_TENSOR,
            "Sequence": " ".join([OLD_SEQUENCE, *(f"record_{each}" for each in OLD_OPERATIONS.split())]),
            "Manager": " ".join([OLD_MANAGER, *EVALUATIONS]),
        },
    ),
    "between 0.6 and 0.7": (
        kp05,
        {"": "host", "Manager": "sequence tensor rebuild destroy", "Shader": "compile_source compile_sources"},
    ),
    "0.7": (
        kp,
        {
            "": f"TensorTypes device host storage {OPERATIONS}",
            "Shader": "compile_source compile_sources",
            "Algorithm": "get_tensors destroy get_spec_consts is_init",
            "Tensor": TENSOR,
            "Sequence": SEQUENCE,
            "Manager": "sequence tensor tensor_t algorithm get_device_properties",
        },
    ),
    "0.8 and 0.9": (kp, {"Manager": "destroy list_devices"}),
    "after 0.9": (
        kp,
        {
            "": "MemoryTypes DataTypes deviceAndHost OpSyncDevice OpSyncLocal OpCopy Memory",
            "Algorithm": "get_mem_objects",
            "Tensor": "memory_type",
            "Image": f"memory_type {TENSOR}",
            "Manager": "image image_t",
        },
    ),
}


@pytest.mark.parametrize("version", NAMES)
def test_each_version_has_its_names(version: str) -> None:
    module, names = NAMES[version]
    for owner, members in names.items():
        result = getattr(module, owner) if owner else module
        assert [name for name in members.split() if not hasattr(result, name)] == [], owner
