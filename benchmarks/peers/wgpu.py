"""wgpu-py: the WebGPU API on the same Vulkan device."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from measure import Unavailable

from peers import Target
from peers.work import LOCAL_SIZE, Blocking, Floats, Outcome, windows

HINT = "pip install wgpu"
DISTRIBUTIONS = ("wgpu",)

_SOURCE = f"""
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size({LOCAL_SIZE})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    if (id.x < arrayLength(&c)) {{ c[id.x] = a[id.x] * b[id.x]; }}
}}
"""


class Peer:
    """The Vulkan adapter with the target's name."""

    def __init__(self, target: Target) -> None:
        self.wgpu = import_module("wgpu")
        adapters = [item for item in self.wgpu.gpu.enumerate_adapters_sync() if item.info["backend_type"] == "Vulkan"]
        fit = [adapter for adapter in adapters if adapter.info["device"] == target.name]
        if not fit:
            raise Unavailable(f"it has no adapter {target.name!r}, only {[each.info['device'] for each in adapters]}")
        self.about = fit[0].summary
        largest = fit[0].limits["max-buffer-size"]
        self.device = fit[0].request_device_sync(required_limits={"max-buffer-size": largest})
        module = self.device.create_shader_module(code=_SOURCE)
        self.pipeline = self.device.create_compute_pipeline(layout="auto", compute={"module": module})

    def resident(self, a: Floats, b: Floats) -> Resident:
        """The product of buffers on the device."""
        return Resident(self, a, b)

    def from_host(self, a: Floats, b: Floats) -> FromHost:
        """Upload, product and download."""
        return FromHost(self, a, b)


class Resident:
    """The product of buffers on the device."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer, device = peer, peer.device
        usage = peer.wgpu.BufferUsage
        self.inputs = [
            device.create_buffer_with_data(data=array, usage=usage.STORAGE | usage.COPY_DST) for array in (a, b)
        ]
        self.output: Any = device.create_buffer(size=a.nbytes, usage=usage.STORAGE | usage.COPY_SRC)
        self._launches = [(self._bind(start, count), -(-count // LOCAL_SIZE)) for start, count in windows(a.size)]

    def _bind(self, start: int, count: int) -> Any:
        entries = [
            {"binding": i, "resource": {"buffer": buffer, "offset": 4 * start, "size": 4 * count}}
            for i, buffer in enumerate((*self.inputs, self.output))
        ]
        layout = self._peer.pipeline.get_bind_group_layout(0)
        return self._peer.device.create_bind_group(layout=layout, entries=entries)

    def enqueue(self) -> None:
        """Encodes and submits a command buffer; WebGPU cannot submit one twice."""
        encoder = self._peer.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(self._peer.pipeline)
        for group, n_groups in self._launches:
            work.set_bind_group(0, group)
            work.dispatch_workgroups(n_groups)
        work.end()
        self._peer.device.queue.submit([encoder.finish()])

    def wait(self) -> None:
        """Waits for the queue. The public on_submitted_work_done_sync raises TypeError in wgpu 0.32."""
        self._peer.device._poll_wait()

    def result(self) -> Floats:
        """Returns a copy of the output."""
        return np.frombuffer(self._peer.device.queue.read_buffer(self.output), np.float32)


class FromHost(Blocking, Outcome):
    """Upload, product and download."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer, self._arrays, self._resident = peer, (a, b), Resident(peer, a, b)

    def enqueue(self) -> None:
        """Runs all three steps."""
        for buffer, array in zip(self._resident.inputs, self._arrays, strict=True):
            self._peer.device.queue.write_buffer(buffer, 0, array)
        self._resident.enqueue()
        self.out = self._resident.result()
