"""The rules of the scripts are those of `onward.flow.graph`: for random graphs, and after random histories."""

from importlib.resources import files
from random import Random

import msgspec
import pytest

from onward.backend import Query, Settlement
from onward.backends.memory import MemoryBackend
from onward.backends.redis import layout
from onward.flow.graph import Node, NodeState, advance, reset, why_not_needed
from onward.job.membership import FlowPlan, NodePlan
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import SETTLEMENTS, a_claim, a_session, an_envelope, an_id

NUMBERS = {state: number for number, state in layout.NODE_STATES.items()}
WHENS = ("succeeded", "succeeded", "failed", "finished")
GRAPHS = 400
HISTORIES = 60
STEPS = 40
LIVE = frozenset(State) - FINISHED

ASKED = """
local nodes, live, closed, chosen = unpack(cmsgpack.unpack(ARGV[1]))
local changed = graph.advance(nodes, function(node) return live[node.name] end, closed)
local answers = {advanced = {}, reset = {}, reasons = {}}
for place, state in pairs(changed) do answers.advanced[nodes[place].name] = state end
for place, what in pairs(graph.reset(nodes, chosen)) do answers.reset[nodes[place].name] = what end
for _, node in ipairs(nodes) do answers.reasons[node.name] = graph.why_not_needed(nodes, node) end
return cmsgpack.pack(answers)
"""


def a_graph(rng):
    names = [f"n{number}" for number in range(rng.randint(1, 9))]
    return [
        Node(
            name=name,
            after=tuple(each for each in names[:place] if rng.random() < 0.4),
            when=rng.choice(WHENS),
            state=rng.choice([*NodeState, NodeState.WAITING, NodeState.OPEN]),
            failed=rng.random() < 0.3,
        )
        for place, name in enumerate(names)
    ]


def by_the_scripts(raw, nodes, live, *, closed, chosen):
    places = {node.name: place for place, node in enumerate(nodes, 1)}
    given = [
        {
            "name": node.name,
            "after": [places[name] for name in node.after],
            "when": node.when,
            "state": NUMBERS[node.state],
            "failed": node.failed,
        }
        for node in nodes
    ]
    rules = files("onward.backends.redis").joinpath("scripts", "lib", "graph.lua").read_text()
    text = f"{layout.lua()}\n{rules}\n{ASKED}"
    arguments = (given, dict.fromkeys(live, True), closed, {places[name]: True for name in chosen})
    return msgspec.msgpack.decode(raw.eval(text, 0, msgspec.msgpack.encode(arguments)))


def test_the_rules_of_the_scripts_are_those_of_python(raw):
    rng = Random(5)
    for _ in range(GRAPHS):
        nodes = a_graph(rng)
        live = {node.name for node in nodes if rng.random() < 0.5}
        chosen = {node.name for node in nodes if rng.random() < 0.3}
        closed = rng.random() < 0.8

        found = by_the_scripts(raw, nodes, live, closed=closed, chosen=chosen)

        expected = {node.name: NUMBERS[node.state] for node in advance(nodes, live.__contains__, closed=closed)}
        assert dict(found["advanced"] or {}) == expected
        by_name = {node.name: node for node in nodes}
        anew = {
            node.name: "open"
            if by_name[node.name].state is NodeState.OPEN
            else ("again" if node.name in chosen else "behind")
            for node in reset(nodes, chosen, lambda _: False)
        }
        assert dict(found["reset"] or {}) == anew
        assert found["reasons"] == {node.name: why_not_needed(by_name, node) for node in nodes}


class Pair:
    """One history of a flow in two stores: in memory, where Python applies the rules, and on a server."""

    def __init__(self, backend, clock, rng):
        self.clock, self.rng = clock, rng
        self.memory, self.redis = MemoryBackend(clock=clock), backend
        self.id = an_id()
        self.nodes = "abcdefg"[: rng.randint(2, 7)]
        self.leases = {}  # of both, by the id of the job
        self.both("open_session", a_session("worker", lease_for=10**6))
        plans = [
            NodePlan(
                name=name,
                after=tuple(each for each in self.nodes[:place] if rng.random() < 0.5),
                when=rng.choice(WHENS),
            )
            for place, name in enumerate(self.nodes)
        ]
        members = [self.made(name) for name in self.nodes for _ in range(rng.randint(0, 3))] or [self.made("a")]
        plan = FlowPlan(
            name="compared", nodes=tuple(plans), stop_on_failure=rng.random() < 0.3, closed=rng.random() < 0.8
        )
        members[0] = msgspec.structs.replace(members[0], plan=plan)
        self.both("enqueue", members)

    def both(self, verb, *args, **options):
        ours, theirs = (getattr(each, verb)(*args, **options) for each in (self.memory, self.redis))
        assert theirs == ours, verb
        return ours

    def made(self, node):
        letter = {
            "queue": node,
            "flow": self.id,
            "node": node,
            "max_crashes": 2,
            "delay": self.rng.choice([0, 0, 0, 5]),
        }
        if self.rng.random() < 0.2:
            letter["expires_at"] = self.clock.micros() + 30_000_000
        return an_envelope(**letter)

    def jobs(self, states=frozenset(State)):
        return [job.id for job in self.memory.list(Query(flow=self.id, states=states, limit=1_000))]

    def claim(self):
        claim = a_claim(owner="worker", queues=(self.rng.choice(self.nodes),), limit=self.rng.randint(1, 3))
        ours, theirs = self.memory.claim(claim), self.redis.claim(claim)
        shown = [[(lease.envelope.id, lease.token, lease.member) for lease in leases] for leases in (ours, theirs)]
        assert shown[1] == shown[0]
        self.leases |= {one.envelope.id: (one, other) for one, other in zip(ours, theirs, strict=True)}

    def settle(self):
        if self.leases:
            job_id = self.rng.choice(sorted(self.leases))
            pair = self.leases.pop(job_id)
            move = self.rng.choice(["ack", "ack", "ack", "abandon", "skip", *sorted(SETTLEMENTS)])
            ours, theirs = (SETTLEMENTS[move](lease) for lease in pair)
            assert self.redis.settle([theirs]) == self.memory.settle([ours])

    def drop(self):
        if self.leases:
            pair = self.leases.pop(self.rng.choice(sorted(self.leases)))
            ours, theirs = (Settlement.ack(lease, b"1", keep=False) for lease in pair)
            assert self.redis.settle([theirs]) == self.memory.settle([ours])

    def cancel(self):
        if found := self.jobs(LIVE):
            self.both("cancel", [self.rng.choice(found)], "not wanted")

    def retry(self):
        if found := self.jobs(LIVE):
            self.both("retry", [self.rng.choice(found)])

    def replay(self):
        if found := self.jobs(FINISHED):
            self.both("replay", Query(ids=tuple(self.rng.sample(found, min(2, len(found))))))

    def grow(self):
        if self.leases and self.memory.flow(self.id):
            ours, theirs = self.leases[self.rng.choice(sorted(self.leases))]
            node = self.rng.choice([each for each in self.nodes if each >= ours.envelope.queue])
            added = [self.made(node)]
            assert self.redis.grow(theirs, added) == self.memory.grow(ours, added)

    def extend(self):
        self.both("extend_flow", self.id, [self.made(self.rng.choice(self.nodes))])

    def close(self):
        self.both("close_flow", self.id)

    def cancel_flow(self):
        self.both("cancel_flow", self.id, "as a whole")

    def retry_flow(self):
        self.both("retry_flow", self.id)

    def reap(self):
        for each in (self.memory, self.redis):
            each.reap(owner="worker", started=())
        self.leases = {}
        self.both("open_session", a_session("worker", lease_for=10**6))

    def let_pass(self):
        self.clock.advance(self.rng.choice([1, 6, 40]))

    def prune(self):
        before = self.clock.micros() - 60_000_000
        self.both("prune", dict.fromkeys(FINISHED, before))

    def compare(self):
        self.both("flow", self.id)
        self.both("member_counts", self.id)
        shown = [
            [
                (job.id, job.state, job.reason, job.awaits, job.available_at, job.result, job.cancel_requested)
                for job in each.list(Query(flow=self.id, limit=1_000))
            ]
            for each in (self.memory, self.redis)
        ]
        assert shown[1] == shown[0]
        assert self.redis.counts() == self.memory.counts()


VERBS = ["claim"] * 6 + ["settle"] * 8 + ["grow"] * 2 + ["let_pass"] * 2
VERBS += ["drop", "cancel", "retry", "replay", "extend", "close", "cancel_flow", "retry_flow", "reap", "prune"]


@pytest.mark.promise("W73")
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_flow_goes_the_same_way_as_in_memory(backend, clock, caplog, seed):
    rng = Random(seed)
    pair = Pair(backend, clock, rng)
    for _ in range(STEPS):
        verb = rng.choice(VERBS)
        getattr(pair, verb)()
        if pair.memory.flow(pair.id) is None:
            break
        pair.compare()
    backend.reap()

    assert "should have gone on before" not in caplog.text
    assert "listed that are not there" not in caplog.text
