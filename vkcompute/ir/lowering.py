"""Lowers a function to SPIR-V 1.3: regions become blocks, and the values they pass become phis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkcompute.ir.assembler import Assembler
from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import (
    NO_CONTRACTION,
    Constant,
    Function,
    Op,
    Param,
    Region,
    Value,
    back_edges,
    exits,
    walk,
)
from vkcompute.ir.instructions import arithmetic, cast, subgroup
from vkcompute.ir.interface import KernelModule, interface_of
from vkcompute.ir.memory import Memory
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.target import Target
from vkcompute.ir.types import BOOL, UINT32, Matrix, Type, Vector, element_of, vector
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import (
    Capability,
    Decoration,
    LoopControl,
    MemorySemantics,
    Scope,
    SelectionControl,
    StorageClass,
)

_NON_PRIVATE = 0x20  # MemoryAccess: other invocations access the memory, too
_VISIBLE = MemorySemantics.MakeAvailable | MemorySemantics.MakeVisible
_ALL_MEMORY = (
    MemorySemantics.AcquireRelease | MemorySemantics.UniformMemory | MemorySemantics.WorkgroupMemory
)  # UniformMemory covers storage buffers


def to_spirv(function: Function, target: Target) -> KernelModule:
    """The module of a valid function that needs no legalization (ir/pipeline.py)."""
    return _Lowering(function, target).module()


class _Lowering:
    """The lowering of one function."""

    def __init__(self, function: Function, target: Target) -> None:
        self._function, self._out = function, Assembler(target.preserved_floats)
        self._block = self._entry = self._out.id()  # the label of the present block
        self._ids: dict[Value, int] = {}
        self._builtins: dict[tuple[str, int], int] = {}
        self._predecessors: dict[Op, int] = {}  # terminator -> its block
        self._loop_targets: dict[Op, tuple[int, int]] = {}  # loop -> the blocks of continue and break
        self._memories: dict[Memory, tuple[int, int]] = {}  # memory -> storage class, variable
        self._block_classes = {StorageClass.StorageBuffer}  # storage classes whose arrays are members of blocks
        self._routines: dict[tuple[str, Type], int] = {}  # those that are called so far
        self._storage_buffers = [memory for memory in function.buffers if not memory.texels]
        self._ops = ops = walk(function.body)
        self._parameters: tuple[int, int] | None = None  # set and binding of the buffer of parameters
        self._has_matrices = any(op.has_result and isinstance(op.type, Matrix) for op in ops)
        self._device_scope = Scope.QueueFamily if self._has_matrices else Scope.Device
        self._access = (_NON_PRIVATE,) if self._has_matrices else ()
        loops = [op for op in ops if op.code == "loop" and not target.keeps_loop_results]
        self._guarded = {loop: n for n, loop in enumerate(filter(_has_invariant_result, loops))}
        self._declare_memories(ops, [Decoration.NonWritable] if target.declares_read_only else [])
        self._broadcasts, self._fences = target.broadcasts, target.fences
        self._load_parameters(target.max_push_nbytes)
        self._load_builtins(ops)
        self._opaque = self._load_opaque() if self._guarded else 0

    def module(self) -> KernelModule:
        """The module."""
        function = self._function
        self._region(function.body, 0)
        words = self._out.words(function.name, function.local_size, self._entry)
        private = [memory for memory in self._memories if memory.private]
        interface = interface_of(function, self._ops, self._out, private, parameters=self._parameters)
        return KernelModule(words, interface)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def _declare_memories(self, ops: Sequence[Op], read_only: Sequence[int]) -> None:
        out, written = self._out, {op.memory for op in ops if op.operation.writes}
        # Without Coherent, a device may keep stores in caches that other workgroups do not see, across a fence, too.
        # The Vulkan memory model has no such decoration.
        is_fenced = any(op.code == "fence" for op in ops) and not self._has_matrices
        fenced = [Decoration.Coherent] if is_fenced else []
        # A store to a part of a word clears the part first. A kernel in place must not load it after that.
        function, in_words = self._function, any(memory is not None and memory.parts > 1 for memory in written)
        aliased = frozenset(function.buffers) if in_words else function.aliased
        for number, memory in enumerate(function.buffers):
            binding = memory.binding or (0, number)
            if memory.texels:
                self._memories[memory] = (
                    StorageClass.UniformConstant,
                    out.texel_buffer(memory.name, binding, memory.lanes),
                )
                continue
            decorations = fenced if memory in written else read_only
            if memory in aliased:  # drivers may take others for different memory: SPIR-V 2.18.2
                decorations = [*fenced, Decoration.Aliased]
            variable = out.buffer(memory.name, memory.type, binding, *decorations)
            self._memories[memory] = StorageClass.StorageBuffer, variable
        self._declare_workgroup_memory()
        for memory in dict.fromkeys(op.memory for op in ops if op.memory is not None and op.memory.private):
            variable = out.array(StorageClass.Function, memory.name, memory.element, memory.length or 0)
            self._memories[memory] = StorageClass.Function, variable

    def _declare_workgroup_memory(self) -> None:
        """Declares the arrays in workgroup memory. If some begin at the same byte, all are blocks with offsets."""
        out, shared, aliased = self._out, self._function.shared_memory, self._function.aliased
        end = max([memory.nbytes for memory in shared if memory in aliased], default=0)
        if not end:
            for memory in shared:
                variable = out.array(StorageClass.Workgroup, memory.name, memory.type, memory.length or 0)
                self._memories[memory] = StorageClass.Workgroup, variable
            return
        self._block_classes.add(StorageClass.Workgroup)
        for memory in shared:
            offset = 0 if memory in aliased else -(-end // 16) * 16
            end = max(end, offset + memory.nbytes)
            variable = out.shared_block(memory.name, memory.type, memory.length or 0, offset)
            self._memories[memory] = StorageClass.Workgroup, variable

    def _load_parameters(self, max_push_nbytes: int) -> None:
        """Loads the parameters in the entry block, which dominates all uses."""
        out, function = self._out, self._function
        if not function.pushes:
            return
        block, nbytes = out.parameters([(push.name, push.type) for push in function.pushes])
        storage, variable = StorageClass.PushConstant, 0
        if nbytes <= max_push_nbytes:
            variable = out.variable(storage, block, "")
        else:
            bound = [memory.binding or (0, number) for number, memory in enumerate(function.buffers)]
            last_set, last = max(bound, default=(0, -1))
            storage = StorageClass.Uniform
            self._parameters = last_set, last + 1
            variable = out.bound(storage, block, "parameters", self._parameters)
        for index, push in enumerate(function.pushes):
            pointer = self._pointer(storage, push.type, variable, out.uint(index))
            self._ids[push] = out.value(spv.OpLoad, push.type, pointer)

    def _load_builtins(self, ops: Sequence[Op]) -> None:
        """Loads builtins in the entry block."""
        out = self._out
        used = [op.attribute for op in ops if op.code == "builtin"]
        if self._guarded and not self._storage_buffers:
            used.append(("n_groups", 0))
        variables: dict[str, int] = {}
        for name, axis in dict.fromkeys(used):
            builtin = BUILTINS[name]
            whole: Type = UINT32 if builtin.n_axes == 1 else vector(UINT32, builtin.n_axes)
            if builtin.subgroup:
                out.require(Capability.GroupNonUniform)
            if name not in variables:
                variables[name] = out.input(whole, builtin.number)
            pointer = variables[name]
            if whole is not UINT32:  # one component: loading all takes up to 3 % of a kernel on SwiftShader
                pointer = self._pointer(StorageClass.Input, UINT32, pointer, out.uint(axis))
            self._builtins[name, axis] = out.value(spv.OpLoad, UINT32, pointer)

    def _load_opaque(self) -> int:
        """The id of a uint32 that is unknown to compilers, and never one of the largest.

        The length of a storage buffer, if there is one: a kernel that reads the number of groups cannot be split by
        the scheduler.
        """
        if not self._storage_buffers:
            return self._builtins["n_groups", 0]
        return self._out.value(spv.OpArrayLength, UINT32, self._memories[self._storage_buffers[0]][1], 0)

    def _id(self, value: Value) -> int:
        return self._out.constant(value) if isinstance(value, Constant) else self._ids[value]

    def _pointer(self, storage: int, kind: Type, base: int, *indices: int) -> int:
        result = self._out.id()
        pointer = self._out.pointer(storage, self._out.type(kind))
        self._out.op(spv.OpAccessChain, pointer, result, base, *indices)
        return result

    # -- control flow -------------------------------------------------------------------------------------------------

    def _start(self, label: int) -> None:
        self._out.op(spv.OpLabel, label)
        self._block = label

    def _region(self, region: Region, merge: int) -> None:
        """Emits a region; its yield branches to the block `merge`, or returns, with its value, if that is 0."""
        end = region.terminator
        for op in region.ops if end is None else region.ops[:-1]:
            if op.code == "if":
                self._if(op)
            elif op.code == "loop":
                self._loop(op)
            elif op.has_result:
                self._ids[op] = self._value(op)
            else:
                _EFFECTS[op.code](self, op, [self._id(value) for value in op.args])
        if end is not None:
            self._predecessors[end] = self._block
            if end.attribute is not None:
                merge = self._loop_targets[end.attribute][end.code == "break"]
        if end is not None and end.code == "unreachable":
            self._out.op(spv.OpUnreachable)
        elif merge and (end is None or end.code != "return"):
            self._out.op(spv.OpBranch, merge)
        elif end is not None and end.args:  # of a routine
            self._out.op(spv.OpReturnValue, self._id(end.args[0]))
        else:
            self._out.op(spv.OpReturn)

    def _if(self, op: Op) -> None:
        """Emits a branch. A region that only yields gets no block; if both do, the branch is a select."""
        out, before = self._out, self._block
        bare = [all(op.code == "yield" for op in region.ops) for region in op.regions]
        if all(bare) and not any(isinstance(result.type, Vector) for result in op.results):
            for result, *values in zip(op.results, *[end.args for end in exits(op)], strict=False):
                ids = [self._id(value) for value in (op.args[0], *values)]
                self._ids[result] = out.value(spv.OpSelect, result.type, *ids)
            return
        bare[0] &= not bare[1]
        merge = out.id()
        labels = [merge if skipped else out.id() for skipped in bare]
        out.op(spv.OpSelectionMerge, merge, SelectionControl.MaskNone)
        out.op(spv.OpBranchConditional, self._id(op.args[0]), *labels)
        for label, region in zip(labels, op.regions, strict=True):
            if label != merge:
                self._start(label)
                self._region(region, merge)
            elif region.ops:
                self._predecessors[region.ops[0]] = before
        self._start(merge)
        self._phis(op.results, [out.id() for _ in op.results], list(exits(op)))

    def _loop(self, op: Op) -> None:
        out, before = self._out, self._block
        header, body, again, merge = (out.id() for _ in range(4))
        self._loop_targets[op] = again, merge
        out.op(spv.OpBranch, header)
        self._start(header)
        following = [out.id() for _ in op.params]
        for param, initial, next_ in zip(op.params, op.args, following, strict=True):
            self._ids[param] = out.value(spv.OpPhi, param.type, self._id(initial), before, next_, again)
        guard = self._opaque_true(self._guarded[op]) if op in self._guarded else 0
        out.op(spv.OpLoopMerge, merge, again, LoopControl.MaskNone)
        out.op(*(spv.OpBranchConditional, guard, body, merge) if guard else (spv.OpBranch, body))
        self._start(body)
        self._region(op.regions[0], again)
        self._start(again)
        self._phis(op.params, following, list(back_edges(op)))
        out.op(spv.OpBranch, header)
        self._start(merge)
        results = [out.id() for _ in op.results]
        self._phis(op.results, results, list(exits(op)), header if guard else 0)

    def _opaque_true(self, number: int) -> int:
        """The id of an opaque true for the guarded loop of this number.

        Loops have different ones, as compilers know in the body of a loop that its condition is true.
        """
        never = self._out.uint(0xFFFFFFFF - number)
        return arithmetic(self._out, OPERATIONS["ne"], BOOL, UINT32, [self._opaque, never])

    def _phis(self, values: Sequence[Value], ids: Sequence[int], ends: Sequence[Op], header: int = 0) -> None:
        """Emits the phis at a block's start, of the operands of the terminators that branch here.

        A `header` is one more predecessor, which never branches here.
        """
        for index, (value, result) in enumerate(zip(values, ids, strict=True)):
            operands = [word for end in ends for word in (self._id(end.args[index]), self._predecessors[end])]
            operands += [self._out.number(0, value.type), header] * bool(header)
            self._out.op(spv.OpPhi if operands else spv.OpUndef, self._out.type(value.type), result, *operands)
            if not isinstance(value, Param):
                self._ids[value] = result

    # -- operations ---------------------------------------------------------------------------------------------------

    def _value(self, op: Op) -> int:
        """Emits an operation, and returns the id of its result."""
        args = [self._id(value) for value in op.args]
        if op.operation.arity is None:
            return _VALUES[op.code](self, op, args)
        if op.operation.elementary and (op.code, op.type) in self._function.routines:
            return self._out.value(spv.OpFunctionCall, op.type, self._routine(op.code, op.type), *args)
        result = arithmetic(self._out, op.operation, op.type, op.args[0].type, args)
        if op.attribute == NO_CONTRACTION:
            self._out.decorate(result, Decoration.NoContraction)
        return result

    def _routine(self, code: str, kind: Type) -> int:
        """The id of the function that computes an operation, emitted once."""
        if (code, kind) not in self._routines:
            params, body = self._function.routines[code, kind]
            block, self._block = self._block, self._out.id()
            ids = [(self._out.id(), param.type) for param in params]
            self._ids.update(zip(params, [component for component, _ in ids], strict=True))
            with self._out.function(self._block, ids, kind) as self._routines[code, kind]:
                self._region(body, 0)
            self._block = block
        return self._routines[code, kind]

    def _subgroup(self, op: Op, args: list[int]) -> int:
        constant_lane = self._broadcasts and bool(op.args) and isinstance(op.args[-1], Constant)
        return subgroup(self._out, op.attribute, op.type, args, constant_lane=constant_lane)

    def _load(self, op: Op, args: list[int]) -> int:
        memory: Memory = op.attribute
        if memory.texels:
            return self._out.texel(self._memories[memory][1], args[0], memory.lanes)
        return self._out.value(spv.OpLoad, op.type, self._element(memory, args[0]), *self._access_of(memory))

    def _store(self, op: Op, args: list[int]) -> None:
        memory: Memory = op.attribute
        self._out.op(spv.OpStore, self._element(memory, args[0]), args[1], *self._access_of(memory))

    def _access_of(self, memory: Memory) -> tuple[int, ...]:
        """The operands of an access to memory beside the pointer, which the Vulkan memory model takes."""
        return () if memory.private else self._access

    def _element(self, memory: Memory, index: int) -> int:
        storage, variable = self._memories[memory]
        block = (self._out.uint(0),) if storage in self._block_classes else ()
        return self._pointer(storage, memory.type, variable, *block, index)

    def _atomic(self, op: Op, args: list[int]) -> int:
        out, (name, memory) = self._out, op.attribute
        atomic, element = ATOMICS[name], memory.element
        if element.kind == "f" and atomic.float_capabilities:
            out.require(atomic.float_capabilities[element.bits], atomic.extension)
        scope, relaxed, pointer = self._atomic_operands(memory, args[0])
        return out.value(atomic.opcodes[element.kind], op.type, pointer, scope, relaxed, args[1])

    def _compare_exchange(self, op: Op, args: list[int]) -> int:
        memory: Memory = op.attribute
        scope, relaxed, pointer = self._atomic_operands(memory, args[0])
        operands = pointer, scope, relaxed, relaxed, args[2], args[1]
        return self._out.value(spv.OpAtomicCompareExchange, op.type, *operands)

    def _atomic_operands(self, memory: Memory, index: int) -> tuple[int, int, int]:
        """The ids of scope, memory semantics and pointer."""
        out = self._out
        if memory.element.bits == 64 and memory.element.kind != "f":
            out.require(Capability.Int64Atomics)
        relaxed = out.uint(MemorySemantics.Relaxed)
        scope = out.uint(self._device_scope if memory.length is None else Scope.Workgroup)
        return scope, relaxed, self._element(memory, index)

    def _fill(self, op: Op, args: list[int]) -> None:
        """Stores one value to all elements."""
        out, memory, value = self._out, op.attribute, op.args[0]
        array, parts = out.array_type(memory.element, memory.length), args * memory.length
        if not isinstance(value, Constant):
            whole = out.id()
            out.op(spv.OpCompositeConstruct, array, whole, *parts)
        elif any(value.value.tobytes()):
            whole = out.composite(array, parts)
        else:
            whole = out.null(array)
        out.op(spv.OpStore, self._memories[memory][1], whole)

    def _barrier(self, scope: int) -> None:
        self._out.op(spv.OpControlBarrier, self._out.uint(scope), self._out.uint(scope), self._semantics())

    def _fence(self) -> None:
        if self._fences:
            self._out.op(spv.OpMemoryBarrier, self._out.uint(self._device_scope), self._semantics())

    def _semantics(self) -> int:
        return self._out.uint(_ALL_MEMORY | _VISIBLE if self._has_matrices else _ALL_MEMORY)

    # -- cooperative matrices -----------------------------------------------------------------------------------------

    def _fill_matrix(self, op: Op, args: list[int]) -> int:
        value = op.args[0]
        if isinstance(value, Constant):
            return self._out.composite(self._out.type(op.type), args)
        return self._out.value(spv.OpCompositeConstruct, op.type, *args)

    def _load_matrix(self, op: Op, args: list[int]) -> int:
        memory, row_major = op.attribute[1], self._out.uint(0)
        pointer = self._element(memory, args[0])
        return self._out.value(
            spv.OpCooperativeMatrixLoadKHR, op.type, pointer, row_major, args[1], *self._access_of(memory)
        )

    def _store_matrix(self, op: Op, args: list[int]) -> None:
        memory, row_major = op.attribute, self._out.uint(0)
        index, stride, value = args
        pointer = self._element(memory, index)
        self._out.op(spv.OpCooperativeMatrixStoreKHR, pointer, value, row_major, stride, *self._access_of(memory))

    def _multiply_matrices(self, op: Op, args: list[int]) -> int:
        left, right, sums = (element_of(arg.type).kind == "i" for arg in op.args)
        signed = left * 0x1 | right * 0x2 | sums * (0x4 | 0x8)  # CooperativeMatrixOperands, of A, B, C and the result
        return self._out.value(spv.OpCooperativeMatrixMulAddKHR, op.type, *args, *[signed] * bool(signed))


_VALUES: dict[str, Callable[[_Lowering, Op, list[int]], int]] = {
    "cast": lambda self, op, args: cast(self._out, args[0], op.args[0].type, op.type),
    "bitcast": lambda self, op, args: self._out.value(spv.OpBitcast, op.type, *args),
    "select": lambda self, op, args: self._out.value(spv.OpSelect, op.type, *args),
    "vector": lambda self, op, args: self._out.value(spv.OpCompositeConstruct, op.type, *args),
    "extract": lambda self, op, args: self._out.value(spv.OpCompositeExtract, op.type, args[0], op.attribute),
    "builtin": lambda self, op, _: self._builtins[op.attribute],
    "subgroup": _Lowering._subgroup,
    "length": lambda self, op, _: self._out.value(spv.OpArrayLength, op.type, self._memories[op.attribute][1], 0),
    "load": _Lowering._load,
    "fill_matrix": _Lowering._fill_matrix,
    "load_matrix": _Lowering._load_matrix,
    "multiply_matrices": _Lowering._multiply_matrices,
    "atomic": _Lowering._atomic,
    "compare_exchange": _Lowering._compare_exchange,
}
"""Operations with a result, beside those on numbers."""
_EFFECTS: dict[str, Callable[[_Lowering, Op, list[int]], None]] = {
    "store": _Lowering._store,
    "fill": _Lowering._fill,
    "store_matrix": _Lowering._store_matrix,
    "barrier": lambda self, *_: self._barrier(Scope.Workgroup),
    "subgroup_barrier": lambda self, *_: self._barrier(Scope.Subgroup),
    "fence": lambda self, *_: self._fence(),
}
"""Operations without a result, beside control flow."""


def _has_invariant_result(loop: Op) -> bool:
    """True if all breaks of a loop pass the same value of its body as a result.

    Drivers for CPUs replace the phi of such a result by the value: then all lanes get that of the last one to leave. A
    further exit, which is never taken, prevents this.
    """
    ends = list(exits(loop))
    passed = [{end.args[index] for end in ends} for index in range(len(loop.results))]
    candidates = {value for values in passed if len(values) == 1 for value in values}
    return any(candidates.intersection((op, *op.params, *op.results)) for op in walk(loop.regions[0]))
