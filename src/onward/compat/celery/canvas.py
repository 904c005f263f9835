"""The canvas: `signature`, `chain`, `group` and `chord`, stored as one flow in one write.

    chain(a.s(1), b.s())          b comes after a, and takes its result first
    group(a.s(1), a.s(2))         side by side; calls of one task are one node of many jobs
    chord(group, c.s())           c comes after all of the group, and takes their results as a list

A chain whose part is a group goes on when all of the group is done, as Celery makes a chord of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.compat.celery import feeding
from onward.compat.celery.current import CURRENT
from onward.compat.celery.options import check_call
from onward.compat.celery.protocols import OfApplication, OfTask
from onward.compat.celery.result import AsyncResult, GroupResult
from onward.errors import ArgumentError, OptionError

if TYPE_CHECKING:
    from onward.client.flow_builder import FlowBuilder
    from onward.client.flow_source import FlowNode

__all__ = ["CanvasPart", "Signature", "TaskChain", "TaskGroup", "chain", "chord", "group", "signature"]

Result = AsyncResult | GroupResult

_OF_ALL = ("queue", "priority", "expires")  # options that a whole chain or group can be given
_NOT_HERE = {
    "link": "say what comes after with a chain: (task.s() | after.s())",
    "link_error": "build a flow: app.jobs.flow(…).add(…, when='failed')",
    "on_error": "build a flow: app.jobs.flow(…).add(…, when='failed')",
    "apply": "set app.conf.task_always_eager = True in tests",
    "freeze": "Onward makes the ids",
    "set": "give each task its own, task.s().set(queue=…), or all of them some, .apply_async(queue=…)",
    "set_immutable": "write .set(immutable=True) at a task, or task.si(…)",
    "skew": "give each task its own, task.s().set(countdown=…)",
    "replace": "make another one, task.s(…)",
    **dict.fromkeys(("stamp", "stamp_links"), "write .set(onward={'meta': {…}}) at a task"),
    **dict.fromkeys(("tasks", "body"), "keep the signatures that it is made of"),
    **dict.fromkeys(
        ("get", "update", "items", "keys"), "a signature is no table: read its name, args, kwargs and options"
    ),
}


class CanvasPart:
    """What can stand in a chain: a signature, a chain or a group."""

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue it, these arguments before its own."""
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Enqueue it as one flow."""
        if others := {name: value for name, value in options.items() if name not in _OF_ALL}:
            check_call("canvas", others)  # what no task takes either
            option = next(iter(others))
            raise OptionError(
                f"a canvas takes {', '.join(_OF_ALL)}, and no {option!r}: give it to a task, task.s().set({option}=…)"
            )
        return _enqueued(self.clone(args, kwargs or {}), options)

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> CanvasPart:
        """Return a copy, with these arguments before its own."""
        raise NotImplementedError

    def parts(self) -> list[CanvasPart]:
        """Return what a chain is made of; of anything else, itself."""
        return [self]

    def app(self) -> OfApplication:
        """Return the application of its first task."""
        raise NotImplementedError

    def __or__(self, other: Any) -> TaskChain:
        return chain(self, other)

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_HERE:
            raise OptionError(f"a canvas has no {name!r} here: {_NOT_HERE[name]}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class Signature(CanvasPart):
    """A call of a task that is not made yet."""

    def __init__(
        self,
        task: OfTask | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(task, str) and not hasattr(task, "checked"):
            raise ArgumentError(
                f"a signature is of a task or its name, signature('shop.add', (1, 2)), not of {task!r:.60}"
            )
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.immutable = immutable
        self.options = dict(options or {})
        check_call(self.name, self.options)

    @property
    def name(self) -> str:
        return self.task if isinstance(self.task, str) else self.task.name

    def set(self, immutable: bool | None = None, **options: Any) -> Signature:
        """Give the call further options, and return it."""
        check_call(self.name, options)
        if immutable is not None:
            self.immutable = immutable
        self.options |= options
        return self

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Signature:
        before = () if self.immutable else tuple(args)
        named = {} if self.immutable else dict(kwargs or {})
        return Signature(
            self.task, (*before, *self.args), {**self.kwargs, **named}, immutable=self.immutable, options=self.options
        )

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue the call."""
        call = self.clone(args, kwargs)
        said = {**self.options, **options}
        if isinstance(call.task, str) and not self.app().knows(call.task):
            sent: AsyncResult = self.app().send_task(call.task, call.args, call.kwargs, **said)
            return sent
        made: AsyncResult = self.found().apply_async(call.args, call.kwargs, **said)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the task here, without a store."""
        call = self.clone(args, kwargs)
        return self.found()(*call.args, **call.kwargs)

    def found(self) -> OfTask:
        """Return the task itself; raise if only its name is known."""
        if not isinstance(self.task, str):
            return self.task
        found: OfTask = self.app().task_named(self.task)
        return found

    def app(self) -> OfApplication:
        return CURRENT.app if isinstance(self.task, str) else self.task.app

    def __repr__(self) -> str:
        return f"<Signature {self.name}{self.args!r}>"


class TaskChain(CanvasPart):
    """Parts that come one after the other."""

    def __init__(self, parts: Sequence[CanvasPart]) -> None:
        if not parts:
            raise ArgumentError("a chain has no tasks: give it signatures, chain(add.s(1, 2), add.s(3))")
        self._parts = list(parts)

    def parts(self) -> list[CanvasPart]:
        return self._parts

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> TaskChain:
        first, *others = self._parts
        return TaskChain([first.clone(args, kwargs), *(each.clone() for each in others)])

    def app(self) -> OfApplication:
        return self._parts[0].app()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)


class TaskGroup(CanvasPart):
    """Parts that run side by side.  Those of a group inside of it are its own, as their results are."""

    def __init__(self, members: Sequence[CanvasPart]) -> None:
        self.members: list[CanvasPart] = []
        for each in members:
            self.members += each.members if isinstance(each, TaskGroup) else [each]

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> TaskGroup:
        return TaskGroup([each.clone(args, kwargs) for each in self.members])

    def app(self) -> OfApplication:
        return self.members[0].app() if self.members else CURRENT.app

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def __len__(self) -> int:
        return len(self.members)


class _Header:
    """A chord without its body: ``chord(header)(body)``."""

    def __init__(self, header: TaskGroup) -> None:
        self._header = header

    def __call__(self, body: Signature) -> Any:
        return chain(self._header, body).apply_async()


def signature(
    task: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Signature:
    """Return a call of a task, given as such or by name."""
    immutable = bool(options.pop("immutable", False))
    return Signature(task, args, kwargs, immutable=immutable, options=options)


def chain(*parts: Any) -> TaskChain:
    """Return parts that come one after the other; chains among them are taken apart."""
    return TaskChain([each for part in _parts_of(parts) for each in part.parts()])


def group(*members: Any) -> TaskGroup:
    """Return parts that run side by side."""
    return TaskGroup(_parts_of(members))


def chord(header: Any, body: Signature | None = None) -> Any:
    """Return a group and what comes after all of it; or, without a body, a function that takes it and enqueues both."""
    made = header if isinstance(header, TaskGroup) else group(header)
    return _Header(made) if body is None else chain(made, body)


def _parts_of(given: tuple[Any, ...]) -> list[CanvasPart]:
    one = given[0] if len(given) == 1 and not isinstance(given[0], CanvasPart) else given
    found = list(one) if isinstance(one, Iterable) else [one]
    for each in found:
        if not isinstance(each, CanvasPart):
            raise ArgumentError(f"a canvas is made of signatures, such as add.s(1, 2), not {each!r:.60}")
    return found


# From a canvas to a flow


class _Built(NamedTuple):
    """The last nodes of a part, what they feed to the next, and where its results are."""

    nodes: tuple[FlowNode[Any], ...]
    feed: feeding.Feed
    result: Any  # a node and a place in it, a list of such, or the steps of a chain


class _Steps(NamedTuple):
    """Where the results of a chain inside of a group are."""

    results: list[Any]


class _Builder:
    """Adds the parts of a canvas to a flow."""

    def __init__(self, app: OfApplication, flow: FlowBuilder, options: Mapping[str, Any]) -> None:
        self._app = app
        self._flow = flow
        self._options = options

    def add(self, part: CanvasPart, before: _Built) -> list[_Built]:
        """Add a part behind others; return what each step of it built."""
        if isinstance(part, TaskChain):
            built = []
            for each in part.parts():
                built += self.add(each, before)
                before = built[-1]
            return built
        if isinstance(part, TaskGroup):
            return [self._group(part, before)]
        assert isinstance(part, Signature)
        return [self._calls([part], before)]

    def _group(self, part: TaskGroup, before: _Built) -> _Built:
        if part.members and _alike(part.members):
            return self._calls(part.members, before, many=True)
        members = [self.add(each, before) for each in part.members]
        nodes = tuple(node for steps in members for node in steps[-1].nodes)
        results = [_Steps([step.result for step in steps]) for steps in members]
        return _Built(nodes or before.nodes, [steps[-1].feed for steps in members], results)

    def _calls(self, members: Sequence[Any], before: _Built, *, many: bool = False) -> _Built:
        first: Signature = members[0]
        task, feed = first.found(), None if first.immutable else before.feed
        calls = [task.checked(each.args, each.kwargs, fed=feed is not None) for each in members]
        job = self._app.using(task, {**self._options, **first.options}, meta={feeding.IN_FLOW: True, feeding.KEY: feed})
        node = self._flow.map(job, calls, after=before.nodes)
        if not many:
            return _Built((node,), node.name, (node.name, 0))
        return _Built((node,), {"all": node.name}, [(node.name, place) for place in range(len(members))])


def _alike(members: Sequence[CanvasPart]) -> bool:
    """Return whether these are calls of one task with the same options."""
    return all(isinstance(each, Signature) for each in members) and all(
        (each.name, each.options, each.immutable) == (members[0].name, members[0].options, members[0].immutable)
        for each in members
    )


def _enqueued(part: CanvasPart, options: Mapping[str, Any]) -> Result:
    """Store a canvas as a flow, and return the result of its last part, with those before it as parents."""
    if isinstance(part, TaskGroup) and not part.members:
        return GroupResult("", [])
    app = part.app()
    name = "celery.group" if isinstance(part, TaskGroup) else "celery.chain"
    flow = app.onward.flow(name)
    built = _Builder(app, flow, options).add(part, _Built((), None, None))
    ids: dict[str, list[str]] = defaultdict(list)
    for envelope in flow.sealed():
        ids[envelope.node or ""].append(envelope.id)
    flow.enqueue()
    return _Results(app, flow.id, ids).of(_Steps([each.result for each in built]), None)


class _Results:
    """Makes results of the places where they are."""

    def __init__(self, app: OfApplication, flow: str, ids: Mapping[str, list[str]]) -> None:
        self._app = app
        self._flow = flow
        self._ids = ids

    def of(self, found: Any, parent: Result | None) -> Result:
        if isinstance(found, _Steps):
            last = parent
            for each in found.results:
                last = self.of(each, last)
            assert last is not None
            return last
        if isinstance(found, list):
            return GroupResult(self._flow, [self.of(each, parent) for each in found], parent)
        node, place = found
        return AsyncResult(self._ids[node][place], app=self._app, parent=parent)
