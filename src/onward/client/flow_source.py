"""What flows of one application share: the store that keeps them, how their jobs are sealed, and how results are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from onward.backend import Backend, Enqueued, Envelope, FlowRow, Inspection, KeepsFlows, Query, StoredJob
from onward.base.failure import storable
from onward.base.names import job_name, suggestion
from onward.client.auditing import Auditor
from onward.client.bound_job import HandleSource, Job
from onward.client.calls import Call
from onward.client.client import Client
from onward.errors import ArgumentError, FlowError, FlowNotFound, InvalidName, OptionError, Unsupported
from onward.job.arguments import decode_result
from onward.job.registry import FunctionEntry
from onward.job.states import State
from onward.security.note_seals import NoteSeals

__all__ = ["FlowNode", "FlowSource", "checked_flag", "checked_name", "node_among"]

T = TypeVar("T")

_PAGE = 500  # results that one read brings


class FlowSource:
    """Seals members, finds flows and reads results."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        client: Client,
        handles: HandleSource,
        seals: NoteSeals,
        *,
        auditor: Auditor,
    ) -> None:
        self._backend = backend
        self._inspection = inspection
        self._seals = seals
        self.client = client
        self.handles = handles
        self.auditor = auditor

    @property
    def store(self) -> KeepsFlows:
        if not self._backend.capabilities.flows:
            raise Unsupported(
                "this store keeps no flows (it declares no `flows`): use another as the url, such as sqlite:///onward.db; a "
                'broker needs a store that does beside it, Onward(url, store="sqlite:///onward.db") or ONWARD_STORE'
            )
        assert isinstance(self._backend, KeepsFlows)
        return self._backend

    def row(self, flow_id: str) -> FlowRow:
        """Return a flow; raise if there is none."""
        found = self.store.flow(flow_id) if _is_text(flow_id) else None
        if found is None:
            raise FlowNotFound(
                f"there is no flow {flow_id!r:.60}: it was pruned, it is in another store, or the transaction that enqueued "
                f"it is not committed"
            )
        return found

    def enqueue_again(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        """Store jobs of which it is not known whether they are stored: those that are, even if they have ended, are left."""
        return self._backend.enqueue(envelopes, retried=True)

    def own(self, job: Any) -> Job[..., Any, Any, Any]:
        """Return a job of this application, given as such or as the function that was made one."""
        if isinstance(job, Job):
            if not job.belongs_to(self.client):
                raise ArgumentError(f"{job.name} is a job of another application: use the flows of that one")
            return job
        entry = self.client.letters.registry.of_function(job) if callable(job) else None
        if entry is None:
            raise ArgumentError(f"{job!r:.80} is no job: make it one with @jobs.job")
        return Job(entry, self.client, self.handles)

    def named(self, name: str) -> Job[..., Any, Any, Any]:
        """Return the job of this name; raise if this application makes none of a function."""
        entry = self.client.letters.registry.find(name)
        if not isinstance(entry, FunctionEntry):
            known = suggestion(name, names) if (names := list(self.client.letters.registry)) else ""
            raise ArgumentError(f"there is no job {name!r:.80} in this application{known}")
        return Job(entry, self.client, self.handles)

    def call(
        self, job: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[Job[..., Any, Any, Any], Call]:
        """Return one call of a job, given as the job and its arguments or as ``job.call(...)``."""
        for name in keywords:
            called = "job" if isinstance(job, Call) else getattr(job, "name", "job")
            raise ArgumentError(f"arguments by keyword go into a call: {called}.call({name}=…)")
        if not isinstance(job, Call):
            found = self.own(job)
            return found, Call(args, {}, found)
        if job.job is None or args:
            raise ArgumentError("give the arguments in the call: job.call(1, page=2)")
        return self.own(job.job), job

    def results(self, flow_id: str, node: str, read: Callable[[bytes | None, StoredJob], Any]) -> Iterator[Any]:
        """Yield the results of a node's completed jobs by id, page by page."""
        after: str | None = None
        while True:
            query = Query(flow=flow_id, node=node, states=frozenset({State.COMPLETED}), after=after, limit=_PAGE)
            page = self._inspection.list(query)
            for stored in page:
                yield read(self._seals.open_result(stored.id, stored.queue, stored.delivery, stored.result), stored)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def results_of(self, row: FlowRow, node: Any, among: Sequence[str]) -> Iterator[Any]:
        """Yield the results of a node, which is one of these, read as its type."""
        name = node_among(node, among, row)
        if isinstance(node, str):
            return self.results(row.id, name, self._read_by_registry)
        return self.results(row.id, name, lambda encoded, _: node.read_result(encoded))

    def result_of(self, row: FlowRow, node: Any, among: Sequence[str]) -> Any:
        """Return the result of a node of one job."""
        name = node_among(node, among, row)
        (found,) = (each for each in row.nodes if each.name == name)
        if found.total != 1:
            raise FlowError(f"node {name!r} has {found.total:,} jobs: read them with results_of")
        for result in self.results_of(row, node, among):
            return result
        raise FlowError(f"node {name!r} has no result: it is {found.state.value.replace('_', ' ')}")

    def _read_by_registry(self, encoded: bytes | None, stored: StoredJob) -> Any:
        entry = self.client.letters.registry.find(stored.job)
        return decode_result(encoded, Any if entry is None else entry.returns)


class FlowNode(Generic[T]):
    """A node of a flow that is being built: what others come after."""

    def __init__(self, name: str, owner: object, job: Job[..., Any, Any, T] | None = None) -> None:
        self.name = name
        self.owner = owner
        self._job = job

    def read_result(self, encoded: bytes | None) -> T:
        """Read a result, as it is stored, as the type that the node's job returns."""
        result: T = decode_result(encoded) if self._job is None else self._job.read_result(encoded)
        return result

    def __repr__(self) -> str:
        return f"<FlowNode {self.name}>"


def checked_name(name: Any, what: str) -> str:
    """Check the name of a flow or a node."""
    try:
        return job_name(name)
    except InvalidName as error:
        raise FlowError(str(error).replace("job name", what, 1)) from None


def checked_flag(value: Any, what: str) -> bool:
    """Check what is either so or not."""
    if not isinstance(value, bool):
        raise OptionError(f"{what} must be True or False, not {value!r:.60}")
    return value


def _is_text(value: Any) -> bool:
    """Return whether every store can carry this: text, and no half of a character."""
    return isinstance(value, str) and storable(value) == value


def node_among(node: Any, names: Iterable[str], row: FlowRow) -> str:
    """Return the name of a node that is given by name, as a `FlowNode`, or by the job that it was named after."""
    known = list(names)
    wanted: str = node if isinstance(node, str) else getattr(node, "name", repr(node))
    if isinstance(node, str | FlowNode):
        matching = [name for name in known if name == wanted]
    else:  # a job that stands in several nodes has a number behind its name
        matching = [name for name in known if name == wanted or _is_numbered(name, wanted)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise FlowError(f"{wanted} is the job of several nodes, {', '.join(matching)}: give the name of one")
    there = {each.name for each in row.nodes}
    if wanted in there:
        raise FlowError(
            f"node {wanted!r} does not come before this one: it may not have ended, so it has no results here"
        )
    raise FlowError(f"there is no node {wanted!r:.80} in flow {row.name}; it has {', '.join(sorted(there)):.300}")


def _is_numbered(name: str, job: str) -> bool:
    start, _, number = name.rpartition("-")
    return start == job and number.isdecimal()
