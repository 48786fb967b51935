"""Lowers a function to SPIR-V 1.3: regions become blocks, and what they hand over becomes phis."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.ir.assembly import INPUT, PUSH_CONSTANT, STORAGE_BUFFER, WORKGROUP, Assembly
from vkcompute.ir.function import EXACT, Constant, Function, Memory, Op, Param, Region, Value, endings, walk
from vkcompute.ir.instructions import GROUP_NON_UNIFORM, arithmetic, cast, subgroup
from vkcompute.ir.passes import decide
from vkcompute.ir.remainder import without_remainders
from vkcompute.ir.rules import BINARY, BUILTINS, COMPARISONS, TESTS, UNARY
from vkcompute.ir.types import BOOL, UINT32, Type, Vector, element_of, vector

# Numbers of the SPIR-V specification 1.3.
_UNDEF, _LOAD, _STORE, _ACCESS_CHAIN, _ARRAY_LENGTH = 1, 61, 62, 65, 68
_CONSTRUCT, _EXTRACT, _BITCAST, _SELECT = 80, 81, 124, 169
_CONTROL_BARRIER, _COMPARE_EXCHANGE = 224, 230
_PHI, _LOOP_MERGE, _SELECTION_MERGE, _LABEL, _BRANCH, _BRANCH_CONDITIONAL = 245, 246, 247, 248, 249, 250
_RETURN, _UNREACHABLE, _NO_CONTRACTION = 253, 255, 42
_ATOMICS = {"exchange": 229, "signed_min": 236, "signed_max": 238, "add": 234, "and": 240, "or": 241, "xor": 242}
_ATOMICS_BY_KIND = {
    "imin": 236, "umin": 237, "imax": 238, "umax": 239, "fmin": 5614, "fmax": 5615, "fadd": 6035,
}  # fmt: skip
_INT64_ATOMICS = 12
# SPIR-V's extensions SPV_EXT_shader_atomic_float_add and _min_max.
_ADD, _MIN_MAX = "SPV_EXT_shader_atomic_float_add", "SPV_EXT_shader_atomic_float_min_max"
_FLOAT_ATOMICS = {
    "add32": ((6033, _ADD),), "add64": ((6034, _ADD),), "min32": ((5612, _MIN_MAX),), "max32": ((5612, _MIN_MAX),),
    "min64": ((5613, _MIN_MAX),), "max64": ((5613, _MIN_MAX),),
}  # fmt: skip
_DEVICE_SCOPE, _WORKGROUP_SCOPE = 1, 2
_RELAXED = 0
_ACQUIRE_RELEASE_ALL = 0x8 | 0x40 | 0x100  # AcquireRelease, UniformMemory (storage buffers), WorkgroupMemory
_BUILT_INS = {
    "n_groups": 24, "group_id": 26, "local_id": 27, "global_id": 28, "local_index": 29,
    "subgroup_size": 36, "n_subgroups": 38, "subgroup_id": 40, "subgroup_local_id": 41,
}  # fmt: skip
_ARITHMETIC = {*BINARY, *COMPARISONS, *UNARY, *TESTS}
_PLAIN = {"select": _SELECT, "vector": _CONSTRUCT, "bitcast": _BITCAST}
_WRITES = ("store", "atomic", "compare_exchange")


def lower(function: Function) -> bytes:
    """The SPIR-V of a function that `verify` finds nothing wrong with; its entry point is "main".

    No branch on a constant is emitted: validation layers refuse it where the side that is not taken starts a loop over.
    """
    decide(function)
    return _Lowering(without_remainders(function)).words()


class _Lowering:
    """One function on its way to SPIR-V."""

    def __init__(self, function: Function) -> None:
        self._function, self._out = function, Assembly()
        self._block = self._entry = self._out.id()  # the label of the block that is being written
        self._ids: dict[Value, int] = {}
        self._builtins: dict[tuple[str, int], int] = {}
        self._came_from: dict[Op, int] = {}  # the block that a terminator ends
        self._ways: dict[Op, tuple[int, int]] = {}  # of a loop: where a continue goes, and where a break
        self._memories: dict[Memory, tuple[int, int]] = {}
        self._declare()

    def words(self) -> bytes:
        """The module."""
        self._region(self._function.body, 0)
        return self._out.words(self._function.name, self._function.local_size, self._entry)

    # -- what the body uses -------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Declares memory, and loads push constants and ids where all that follows sees them."""
        out = self._out
        ops = list(walk(self._function.body))
        written = {op.attribute[1] if op.code == "atomic" else op.attribute for op in ops if op.code in _WRITES}
        for binding, memory in enumerate(self._function.buffers):
            slot = memory.slot or (0, binding)
            variable = out.buffer(memory.name, memory.element, slot, writable=memory in written)
            self._memories[memory] = STORAGE_BUFFER, variable
        for memory in self._function.shared_memory:
            self._memories[memory] = WORKGROUP, out.shared(memory.name, memory.element, memory.length or 0)
        if self._function.pushes:
            block = out.push_constants([(push.name, element_of(push.type)) for push in self._function.pushes])
            for index, push in enumerate(self._function.pushes):
                pointer = self._pointer(PUSH_CONSTANT, push.type, block, out.uint(index))
                self._ids[push] = out.value(_LOAD, push.type, pointer)
        self._guarded = {op for op in ops if op.code == "loop" and _leaves_with_its_own(op)}
        bare = self._guarded and not self._function.buffers
        used = [op.attribute for op in ops if op.code == "builtin"] + [("n_groups", 0)] * bool(bare)
        variables: dict[str, int] = {}
        for name, axis in dict.fromkeys(used):
            whole: Type = UINT32 if BUILTINS[name] == 1 else vector(UINT32, 3)
            if "subgroup" in name:
                out.require(GROUP_NON_UNIFORM)
            if name not in variables:
                variables[name] = out.input(whole, _BUILT_INS[name])
            number = variables[name]  # loaded alone: all three take up to 3 % of a kernel on SwiftShader
            place = number if whole is UINT32 else self._pointer(INPUT, UINT32, number, out.uint(axis))
            self._builtins[name, axis] = out.value(_LOAD, UINT32, place)
        if bare:
            self._unknown = self._builtins["n_groups", 0]
        elif self._guarded:  # with the number of groups a launch could not be divided
            self._unknown = out.value(_ARRAY_LENGTH, UINT32, self._memories[self._function.buffers[0]][1], 0)

    def _id(self, value: Value) -> int:
        return self._out.constant(value) if isinstance(value, Constant) else self._ids[value]

    def _pointer(self, storage: int, kind: Type, base: int, *indices: int) -> int:
        result = self._out.id()
        self._out.op(_ACCESS_CHAIN, self._out.pointer(storage, self._out.type(kind)), result, base, *indices)
        return result

    # -- regions ------------------------------------------------------------------------------------------------------

    def _start(self, label: int) -> None:
        self._out.op(_LABEL, label)
        self._block = label

    def _region(self, region: Region, after: int) -> None:
        """Writes the operations; a yield goes to the block `after`, or ends the invocation where that is 0."""
        end = region.end()
        for op in region.ops if end is None else region.ops[:-1]:
            if op.code == "if":
                self._if(op)
            elif op.code == "loop":
                self._loop(op)
            elif op.has_result:
                self._ids[op] = self._value(op)
            else:
                self._effect(op)
        if end is not None:
            self._came_from[end] = self._block
            if end.attribute is not None:
                after = self._ways[end.attribute][end.code == "break"]
        if end is not None and end.code == "unreachable":
            self._out.op(_UNREACHABLE)
        elif after and (end is None or end.code != "return"):
            self._out.op(_BRANCH, after)
        else:
            self._out.op(_RETURN)

    def _if(self, op: Op) -> None:
        """Writes a branch. A way that only hands values over is no block of its own; both such are a selection."""
        out, before = self._out, self._block
        bare = [all(each.code == "yield" for each in region.ops) for region in op.regions]
        if all(bare) and not any(isinstance(result.type, Vector) for result in op.results):
            for result, *ways in zip(op.results, *[end.args for end in endings(op)], strict=False):
                ids = [self._id(value) for value in (op.args[0], *ways)]
                self._ids[result] = out.value(_SELECT, result.type, *ids)
            return
        bare[0] &= not bare[1]
        merge = out.id()
        labels = [merge if skipped else out.id() for skipped in bare]
        out.op(_SELECTION_MERGE, merge, 0)
        out.op(_BRANCH_CONDITIONAL, self._id(op.args[0]), *labels)
        for label, region in zip(labels, op.regions, strict=True):
            if label != merge:
                self._start(label)
                self._region(region, merge)
            elif region.ops:
                self._came_from[region.ops[0]] = before
        self._start(merge)
        self._join(op.results, [out.id() for _ in op.results], list(endings(op)))

    def _loop(self, op: Op) -> None:
        out, before = self._out, self._block
        header, body, again, merge = (out.id() for _ in range(4))
        self._ways[op] = again, merge
        out.op(_BRANCH, header)
        self._start(header)
        following = [out.id() for _ in op.params]
        for param, initial, next_ in zip(op.params, op.args, following, strict=True):
            self._ids[param] = out.value(_PHI, param.type, self._id(initial), before, next_, again)
        guard = self._runs() if op in self._guarded else 0
        out.op(_LOOP_MERGE, merge, again, 0)
        out.op(*(_BRANCH_CONDITIONAL, guard, body, merge) if guard else (_BRANCH, body))
        self._start(body)
        self._region(op.regions[0], again)
        self._start(again)
        self._join(op.params, following, list(endings(op, back=True)))
        out.op(_BRANCH, header)
        self._start(merge)
        results = [out.id() for _ in op.results]
        self._join(op.results, results, list(endings(op)), header if guard else 0)

    def _runs(self) -> int:
        """The id of a condition that always holds, which no compiler knows."""
        return arithmetic(self._out, "ne", BOOL, UINT32, [self._unknown, self._out.uint(0xFFFFFFFF)])

    def _join(self, values: Sequence[Value], ids: Sequence[int], ends: Sequence[Op], header: int = 0) -> None:
        """Writes what comes together at the block's start: the arguments of the terminators that lead here.

        From a `header`, if there is one, nobody comes.
        """
        for index, (value, result) in enumerate(zip(values, ids, strict=True)):
            ways = [word for end in ends for word in (self._id(end.args[index]), self._came_from[end])]
            ways += [self._out.number(0, value.type), header] * bool(header)
            self._out.op(_PHI if ways else _UNDEF, self._out.type(value.type), result, *ways)
            if not isinstance(value, Param):
                self._ids[value] = result

    # -- operations ---------------------------------------------------------------------------------------------------

    def _value(self, op: Op) -> int:
        """The id of an operation's result."""
        out, args, kind = self._out, [self._id(value) for value in op.args], op.type
        if op.code in _ARITHMETIC:
            result = arithmetic(out, op.code, kind, op.args[0].type, args)
            if op.attribute == EXACT:
                out.decorate(result, _NO_CONTRACTION)
            return result
        match op.code:
            case "load":
                return out.value(_LOAD, kind, self._element(op.attribute, args[0]))
            case "length":
                return out.value(_ARRAY_LENGTH, kind, self._memories[op.attribute][1], 0)
            case "builtin":
                return self._builtins[op.attribute]
            case "subgroup":
                constant = isinstance(op.args[-1], Constant) if op.args else False
                return subgroup(out, op.attribute, kind, args, constant=constant)
            case "cast":
                return cast(out, args[0], op.args[0].type, kind)
            case "extract":
                return out.value(_EXTRACT, kind, args[0], op.attribute)
            case "atomic" | "compare_exchange":
                return self._atomic(op, args)
            case code:
                return out.value(_PLAIN[code], kind, *args)

    def _effect(self, op: Op) -> None:
        """Writes an operation without a result."""
        args = [self._id(value) for value in op.args]
        if op.code == "store":
            self._out.op(_STORE, self._element(op.attribute, args[0]), args[1])
        else:
            scope = self._out.uint(_WORKGROUP_SCOPE)
            self._out.op(_CONTROL_BARRIER, scope, scope, self._out.uint(_ACQUIRE_RELEASE_ALL))

    def _element(self, memory: Memory, index: int) -> int:
        storage, variable = self._memories[memory]
        block = (self._out.uint(0),) if storage == STORAGE_BUFFER else ()
        return self._pointer(storage, memory.element, variable, *block, index)

    def _atomic(self, op: Op, args: list[int]) -> int:
        out = self._out
        exchanges = op.code == "compare_exchange"
        name, memory = ("", op.attribute) if exchanges else op.attribute
        if memory.element.kind == "f":
            for capability, extension in _FLOAT_ATOMICS.get(f"{name}{memory.element.bits}", ()):
                out.require(capability, extension)
        elif memory.element.bits == 64:
            out.require(_INT64_ATOMICS)
        relaxed = out.uint(_RELAXED)
        scope = out.uint(_DEVICE_SCOPE if memory.length is None else _WORKGROUP_SCOPE)
        pointer = self._element(memory, args[0])
        if exchanges:
            return out.value(_COMPARE_EXCHANGE, op.type, pointer, scope, relaxed, relaxed, args[2], args[1])
        opcode = _ATOMICS_BY_KIND.get(memory.element.kind + name) or _ATOMICS[name]
        return out.value(opcode, op.type, pointer, scope, relaxed, args[1])


def _leaves_with_its_own(loop: Op) -> bool:
    """Whether a result of the loop is one value of its body, whichever way leads out.

    SwiftShader simplifies the phi of such a value away, and then gives all lanes what the last one to leave computed.
    Another way out, which is never taken, keeps it from that.
    """
    ends = list(endings(loop))
    alone = [{end.args[index] for end in ends} for index in range(len(loop.results))]
    candidates = {value for values in alone if len(values) == 1 for value in values}
    return any(candidates.intersection((op, *op.params, *op.results)) for op in walk(loop.regions[0]))
