"""Calls of a function to itself, with a stack of its variables in private memory.

The function becomes a loop over its states (`call_states.py`). A call stores the arguments one level deeper, and
continues with the first state. A return continues with the state that the caller has noted. A variable has the kind
that holds all values that the states store to it; the loop is built again until the kinds are fixed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute.compiled.arguments import bind
from vkcompute.frontend.call_states import Branch, Call, Jump, Return, State, states_of
from vkcompute.frontend.control_flow import nothing
from vkcompute.frontend.evaluator import Evaluator, Frame
from vkcompute.frontend.language import Language
from vkcompute.frontend.scopes import Unset, UntypedError
from vkcompute.frontend.source import parameters_of
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Memory, Value
from vkcompute.ir.types import element_of

_RESULT = "value of the function"  # a name that no variable has
_MOST_BUILDS = 10  # a kind that still changes then, as a tuple of the value, grows at each build
_GROWS = "Return type of recursive function does not converge"


@dataclass(frozen=True, slots=True)
class _Slot:
    """The memory of a variable.

    Attributes:
        kind: of all values that are stored to it.
        memories: for each device value of that kind, one element for each level of the stack.
    """

    kind: Any
    memories: list[Memory]


def called(
    e: Evaluator,
    function: FunctionType,
    args: list[Any],
    named: dict[str, Any],
    node: ast.AST,
    language: Language,
    report: Callable[[str], None],
) -> Any:
    """Returns the value of a call of a function that calls itself.

    Args:
        report: builds the report of a full stack, with this text.

    Raises:
        UnsupportedError: it calls itself by another name, or its types do not converge.
    """
    try:
        bound = bind(parameters_of(function), args, named)
    except TypeError as error:
        raise UnsupportedError(f"{function.__name__}: {error}") from None
    bound.apply_defaults()
    stack = e.stacks.get(function)
    if stack is not None:
        return stack.call(bound.arguments, node)
    stack = e.stacks[function] = CallStack(e, function, node, language, report)
    try:
        build = partial(stack.build, bound.arguments)
        return e.flow.call(function.__name__, {}, build, language)
    finally:
        del e.stacks[function]


class CallStack:
    """Builds the calls that one call of a function leads to.

    Args:
        e: builds the expressions and statements.
        node: the call.
        language: that of the function.
        report: builds the report of a full stack, with this text.
    """

    def __init__(
        self, e: Evaluator, function: FunctionType, node: ast.AST, language: Language, report: Callable[[str], None]
    ) -> None:
        self._e, self._function, self._node, self._language = e, function, node, language
        self._report = report
        self._source, self._b = e.sources[function], e.flow.builder
        self._states = states_of(self._source.tree, e.recursive[function])
        self._here = e.here(self._source.tree)
        self._zero = self._b.const(0, INT32)
        self._slots: dict[str, _Slot] = {}
        self._unusable: dict[str, Unset] = {}
        self._state = self._states[0]
        self._changed, self._untyped, self._returns = False, "", set[bool]()
        self._level, self._next = (Memory(name, INT32, 1, private=True) for name in ("level", "state"))
        self._callers = Memory("callers", INT32, e.most_levels, private=True)

    def build(self, arguments: Mapping[str, Any]) -> None:
        """Builds the calls, with these arguments of the first one."""
        e, flow = self._e, self._e.flow
        names = {*arguments, *(name for state in self._states for name in state.assigned())}
        e.frames.append(Frame(self._function, self._source, names, self._node, flow.scopes[-1]))
        outer, e.language = e.language, self._language
        mark, noted, env = self._b.checkpoint(), flow.kinds.state(), flow.env
        for _ in range(_MOST_BUILDS):
            self._changed, self._untyped = False, ""
            self._start(arguments)
            flow.loop(self._iteration, (), self._here)
            if not self._changed:
                break
            self._b.rewind(mark)
            flow.kinds.restore(noted)
            flow.env, flow.alive = env, True
        self._check()
        result = self._result()
        e.language = outer
        e.frames.pop()
        flow.return_(result)

    def _check(self) -> None:
        """Raises UnsupportedError if the types are not fixed."""
        name = self._function.__name__
        if self._changed:
            raise UnsupportedError(f"{_GROWS}: the types of {name} differ in each call")
        if self._untyped:
            rule = f"{self._untyped} of {name} has no type, since no path ends its calls of itself"
            raise UnsupportedError(f"cannot type infer runaway recursion: {rule}")

    def _start(self, arguments: Mapping[str, Any]) -> None:
        """Begins the first call; a store before the loop tells that elements keep their values among iterations."""
        for slot in self._slots.values():
            for memory in slot.memories:
                self._b.store(memory, self._zero, self._b.const(0, memory.element))
        for name, value in arguments.items():
            self._store(name, value, self._zero)
        for memory in (self._level, self._next, self._callers):
            self._b.store(memory, self._zero, self._zero)

    # -- states -------------------------------------------------------------------------------------------------------

    def _iteration(self) -> None:
        b, flow = self._b, self._e.flow
        for n, state in enumerate(self._states):
            is_next = b.compute("eq", b.load(self._next, self._zero), b.const(n, INT32))
            flow.branch(is_next, partial(self._enter, state), nothing, self._here)
        has_ended = b.compute("lt", b.load(self._level, self._zero), self._zero)
        flow.branch(has_ended, flow.break_, nothing, self._here)

    def _enter(self, state: State) -> None:
        """Builds a state; one that needs a type which no other state has given so far is left for the next build."""
        e, flow, mark = self._e, self._e.flow, self._b.checkpoint()
        before, self._state = flow.env, state
        flow.env = before | {name: self._loaded(name) for name in state.names() & e.frames[-1].locals}
        try:
            e.block(state.statements)
            if flow.alive:
                self._end(state)
        except UntypedError as error:
            self._untyped = self._untyped or str(error)
            self._b.rewind(mark)
        flow.env = before

    def _end(self, state: State) -> None:
        e = self._e
        match state.end:
            case Jump(to):
                self._save(state)
                self._continue(to)
            case Branch(test, then, otherwise):
                condition = e.value(test)
                self._save(state)
                e.flow.if_(condition, partial(self._continue, then), partial(self._continue, otherwise), e.here(test))
            case Call(node):
                self._save(state)
                e.value(node)
            case Return(value):
                self._return(None if value is None else e.value(value))

    def _continue(self, state: State) -> None:
        self._b.store(self._next, self._zero, self._b.const(self._states.index(state), INT32))

    def _return(self, value: Any) -> None:
        b = self._b
        self._returns.add(value is not None)
        if len(self._returns) > 1:
            raise UnsupportedError(f"{_GROWS}: {self._function.__name__} returns a value on some paths only")
        try:
            if value is not None:
                self._store(_RESULT, value, self._zero)
        except UnsupportedError as error:
            raise UnsupportedError(f"{_GROWS}: {error}") from None
        level = b.load(self._level, self._zero)
        b.store(self._next, self._zero, b.load(self._callers, level))
        b.store(self._level, self._zero, b.compute("sub", level, b.const(1, INT32)))

    def call(self, arguments: Mapping[str, Any], node: ast.AST) -> Any:
        """Builds a call at the end of a state; returns its value in the state that continues after it."""
        if self._state.resumes is node:
            return self._result()
        if not isinstance(self._state.end, Call) or self._state.end.node is not node:
            rule = f"{self._function.__name__} calls itself by several names, or through another function"
            raise UnsupportedError(f"{rule}; call it by one name")
        b, flow = self._b, self._e.flow
        level = b.compute("add", b.load(self._level, self._zero), b.const(1, INT32))
        is_full = b.compute("ge", level, b.const(self._e.most_levels, INT32))
        flow.branch(is_full, self._overflow, nothing, self._here)
        for name, value in arguments.items():
            self._store(name, value, level)
        b.store(self._callers, level, b.const(self._states.index(self._state.end.then), INT32))
        b.store(self._level, self._zero, level)
        self._continue(self._states[0])
        return None

    def _overflow(self) -> None:
        most = self._e.most_levels
        rule = f"{self._function.__name__} calls itself more than {most - 1} deep, which is the most"
        self._report(f"{rule}; write a loop")
        self._e.flow.end()

    # -- variables ----------------------------------------------------------------------------------------------------

    def _save(self, state: State) -> None:
        """Stores the variables that a state has assigned."""
        level = self._b.load(self._level, self._zero)
        for name in sorted(state.assigned()):
            value = self._e.flow.env.get(name)
            if isinstance(value, Unset) and not value.untyped:
                self._changed |= name not in self._unusable  # a state before this one may read it
                self._unusable[name] = value
            elif value is not None and not isinstance(value, Unset):
                self._store(name, value, level)

    def _loaded(self, name: str) -> Any:
        if name in self._unusable:
            return self._unusable[name]
        if name not in self._slots:
            return Unset(name, unassigned=True, untyped=True)
        return self._load(name, self._b.load(self._level, self._zero))

    def _result(self) -> Any:
        """Returns the value of the call that has returned."""
        if not self._returns:
            raise UntypedError("the value")
        return self._load(_RESULT, self._zero) if True in self._returns else None

    def _store(self, name: str, value: Any, level: Value) -> None:
        kinds, slot = self._e.flow.kinds, self._slots.get(name)
        kind = kinds.kind_at_loop(kinds.kind_of_variable(value))
        kind = kind if slot is None else kinds.joined(slot.kind, kind)
        values = kinds.packed(value, kind)
        if slot is None or slot.kind != kind:
            n = 1 if name == _RESULT else self._e.most_levels
            memories = [Memory(name, element_of(part.type), n, private=True) for part in values]
            slot, self._changed = _Slot(kind, memories), True
            self._slots[name] = slot
        for memory, part in zip(slot.memories, values, strict=True):
            self._b.store(memory, level, part)

    def _load(self, name: str, level: Value) -> Any:
        slot = self._slots[name]
        return self._e.flow.kinds.unpacked(slot.kind, iter([self._b.load(memory, level) for memory in slot.memories]))
