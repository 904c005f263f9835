"""The rules of flows: every order in which jobs can end, on every graph of up to five nodes, and at random beyond."""

import itertools
from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import FlowError
from onward.flow.graph import (
    FAILED,
    OVER,
    Node,
    NodeState,
    advance,
    all_over,
    before,
    behind,
    in_order,
    planned,
    reset,
    why_not_needed,
)
from onward.job.membership import NodePlan

W, OPEN, C, F, P, S = NodeState
WHENS = ("succeeded", "failed", "finished")
ENDS = (C, F)


def graphs(size):
    """Yield every graph of so many nodes once: each node by those before it, as a sum of powers of two, and its `when`.

    Nodes can be numbered so that these sums never fall; so no other numbering need be tried.
    """
    choices = [
        [(mask, when) for mask in range(2**place) for when in (WHENS if mask else WHENS[:1])] for place in range(size)
    ]

    def grow(chosen):
        if len(chosen) == size:
            yield tuple(chosen)
            return
        for choice in choices[len(chosen)]:
            if not chosen or choice >= chosen[-1]:
                yield from grow([*chosen, choice])

    yield from grow([])


def nodes_of(graph):
    names = "abcdefghijklmnop"
    plans = [
        NodePlan(name=names[place], after=tuple(names[at] for at in range(place) if mask >> at & 1), when=when)
        for place, (mask, when) in enumerate(graph)
    ]
    return tuple(planned(plans))


def settled(nodes, live):
    """Apply the rules until nothing changes; a node that opens has one job, which is live."""
    while True:
        changed = {node.name: node for node in advance(nodes, lambda name: name in live, closed=True)}
        if not changed:
            return nodes
        nodes = tuple(changed.get(node.name, node) for node in nodes)


def ended(nodes, name, how):
    """End the one job of an open node."""
    live = {node.name for node in nodes} - {name}
    nodes = tuple(msgspec.structs.replace(node, failed=how is F) if node.name == name else node for node in nodes)
    return settled(nodes, live)


def open_nodes(nodes):
    return [node.name for node in nodes if node.state is OPEN]


def explore(nodes):
    """Go through every state that can be reached; return how many there are.

    Two jobs that end in either order lead to the same state, from every state: so all orders lead to the same end.
    """
    end = cache(ended)
    start = settled(nodes, {node.name for node in nodes})
    seen, ahead = {start}, [start]
    while ahead:
        state = ahead.pop()
        running = open_nodes(state)
        if not running:
            assert all_over(state), f"stuck: {state}"
            for node in state:
                assert node.state is meaning(state, node), (node, state)
            continue
        for one, other in itertools.combinations(running, 2):
            for how, otherwise in itertools.product(ENDS, ENDS):
                assert end(end(state, one, how), other, otherwise) == end(end(state, other, otherwise), one, how)
        for name, how in itertools.product(running, ENDS):
            following = end(state, name, how)
            assert name not in open_nodes(following)
            if following not in seen:
                seen.add(following)
                ahead.append(following)
    return len(seen)


def meaning(state, node):
    """Say from the end of a flow, in other words than the rules, what must have become of a node."""
    ends = {each.name: each.state for each in state}
    ahead = [ends[name] for name in node.after]
    failures = [end for end in ahead if end in (F, P)]
    ran = F if node.failed else C
    if node.when == "succeeded":
        return P if failures else S if S in ahead else ran
    if node.when == "failed":
        return ran if failures else S
    return ran


def renumbered(graph):
    """Number the nodes of any graph so that the sums never fall: the next is always the smallest of those that can be."""
    numbers, numbered = {}, []
    while len(numbers) < len(graph):
        ready = [
            (sum(1 << numbers[at] for at in range(place) if mask >> at & 1), when, place)
            for place, (mask, when) in enumerate(graph)
            if place not in numbers and all(at in numbers for at in range(place) if mask >> at & 1)
        ]
        mask, when, place = min(ready)
        numbers[place] = len(numbers)
        numbered.append((mask, when))
    return tuple(numbered)


def test_no_graph_is_left_out():
    choices = [
        [(mask, when) for mask in range(2**place) for when in (WHENS if mask else WHENS[:1])] for place in range(4)
    ]

    assert {renumbered(graph) for graph in itertools.product(*choices)} <= set(graphs(4))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_order_of_ends_leads_to_the_same_end(size):
    for graph in graphs(size):
        assert explore(nodes_of(graph)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_order_of_ends_leads_to_the_same_end_on_graphs_of_five(part, report):
    every = list(itertools.islice(graphs(5), part, None, 4))

    states = sum(explore(nodes_of(graph)) for graph in every)

    report(f"flows: {len(every):,} graphs of five nodes, {states:,} states, every pair of ends in both orders")
    assert states > len(every)


@st.composite
def large_graphs(draw):
    size = draw(st.integers(6, 16))
    graph = [(0, "succeeded")]
    for place in range(1, size):
        mask = draw(st.integers(0, 2**place - 1)) & draw(st.integers(0, 2**place - 1))
        graph.append((mask, draw(st.sampled_from(WHENS)) if mask else "succeeded"))
    return tuple(graph)


@given(large_graphs(), st.randoms(use_true_random=False))
def test_random_graphs_end_the_same_in_any_order(graph, rng):
    nodes = nodes_of(graph)
    outcomes = {node.name: rng.choice(ENDS) for node in nodes}

    def run():
        state = settled(nodes, {node.name for node in nodes})
        while running := open_nodes(state):
            name = rng.choice(running)
            state = ended(state, name, outcomes[name])
        return state

    first = run()
    assert all_over(first)
    assert all(run() == first for _ in range(5))
    assert all(node.state is meaning(first, node) for node in first)


class TestRules:
    def test_an_open_node_without_live_jobs_is_over_only_when_its_flow_is_closed(self):
        (node,) = planned([NodePlan(name="a")])

        assert advance([node], lambda _: False, closed=False) == []
        assert [each.state for each in advance([node], lambda _: False, closed=True)] == [C]

    def test_a_node_that_needs_success_is_passed_over_before_the_others_are_over(self):
        first, second = Node(name="a", state=F), Node(name="b", state=OPEN)
        third = Node(name="c", after=("a", "b"))

        changed = advance([first, second, third], lambda _: True, closed=True)

        assert [(node.name, node.state) for node in changed] == [("c", P)]
        assert why_not_needed({"a": first, "b": second}, changed[0]) == "node a failed"

    @pytest.mark.parametrize(
        ("when", "ends", "becomes"),
        [
            ("succeeded", (C, C), OPEN),
            ("succeeded", (C, S), S),
            ("succeeded", (S, F), P),
            ("succeeded", (C, P), P),
            ("failed", (C, C), S),
            ("failed", (C, S), S),
            ("failed", (C, F), OPEN),
            ("failed", (P, S), OPEN),
            ("failed", (F, OPEN), W),
            ("finished", (S, S), OPEN),
            ("finished", (C, F), OPEN),
            ("finished", (F, OPEN), W),
        ],
    )
    def test_what_a_node_becomes(self, when, ends, becomes):
        ahead = [Node(name=name, state=state) for name, state in zip("ab", ends, strict=True)]
        node = Node(name="c", after=("a", "b"), when=when)

        changed = advance([*ahead, node], lambda _: True, closed=True)

        assert [each.state for each in changed] == ([] if becomes is W else [becomes])

    def test_every_state_is_over_or_not(self):
        assert set(NodeState) - OVER == {W, OPEN}
        assert FAILED < OVER


class TestOrder:
    def test_nodes_are_put_behind_those_that_they_name(self):
        plans = [NodePlan(name="c", after=("b", "a", "a")), NodePlan(name="b", after=("a",)), NodePlan(name="a")]

        assert [plan.name for plan in in_order(plans)] == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("plans", "told"),
        [
            ([NodePlan(name="a", after=("a",))], "circle: a"),
            ([NodePlan(name="a", after=("b",)), NodePlan(name="b", after=("a",)), NodePlan(name="c")], "circle: a, b"),
            ([NodePlan(name="a", after=("z",))], "no such node in this flow: add it, or leave it out"),
            ([NodePlan(name="fetch"), NodePlan(name="a", after=("fetc",))], "did you mean 'fetch'"),
            ([NodePlan(name="a"), NodePlan(name="a")], "two nodes are named 'a'"),
        ],
    )
    def test_what_cannot_be_put_in_order_is_refused(self, plans, told):
        with pytest.raises(FlowError, match=told):
            in_order(plans)

    def test_a_long_chain_is_ordered_and_passed_over_in_one_pass(self):
        plans = [NodePlan(name=str(at), after=(str(at - 1),) if at else ()) for at in range(10_000)]
        nodes = planned(in_order(plans[::-1]))
        nodes[0] = msgspec.structs.replace(nodes[0], failed=True)

        changed = advance(nodes, lambda _: False, closed=True)

        assert [node.state for node in changed] == [F] + [P] * 9_999

    def test_what_comes_before_and_behind(self):
        nodes = nodes_of(
            ((0, "succeeded"), (0, "succeeded"), (0b01, "failed"), (0b110, "finished"), (0b1000, "failed"))
        )

        assert before(nodes, "e") == ["a", "b", "c", "d"]
        assert before(nodes, "c") == ["a"]
        assert behind(nodes, {"b"}) == ["d", "e"]
        assert behind(nodes, {"a", "b"}) == ["c", "d", "e"]


class TestReset:
    def test_a_failed_node_and_what_was_passed_over_behind_it_open_anew(self):
        nodes = [
            Node(name="a", state=F, failed=True),
            Node(name="b", after=("a",), state=P),
            Node(name="c", after=("a",), when="failed", state=C),
            Node(name="d", after=("c",), when="failed", state=S),
            Node(name="e", state=F, failed=True),
        ]

        changed = reset(nodes, {"a"}, lambda _: False)

        assert {node.name: (node.state, node.failed) for node in changed} == dict.fromkeys("abd", (W, False))
        after = {node.name: node for node in changed}
        opened = advance([after.get(node.name, node) for node in nodes], lambda _: True, closed=False)
        assert [(node.name, node.state) for node in opened] == [("a", OPEN), ("d", S)]

    def test_an_open_node_stays_open_and_remembers_what_failed(self):
        (node,) = reset([Node(name="a", state=OPEN, failed=True)], {"a"}, lambda name: name == "a")

        assert (node.state, node.failed) == (OPEN, True)

    @given(large_graphs(), st.randoms(use_true_random=False))
    def test_a_flow_that_is_retried_until_all_succeed_completes_whatever_is_needed(self, graph, rng):
        """Only what is needed runs, and no node is left failed."""
        nodes = settled(nodes_of(graph), set("abcdefghijklmnop"))
        while running := open_nodes(nodes):
            nodes = ended(nodes, rng.choice(running), rng.choice(ENDS))
        again = {node.name for node in nodes if node.state in FAILED}

        changed = {node.name: node for node in reset(nodes, again, lambda _: False)}
        nodes = settled(tuple(changed.get(node.name, node) for node in nodes), set("abcdefghijklmnop"))
        while running := open_nodes(nodes):
            nodes = ended(nodes, rng.choice(running), C)

        assert all_over(nodes)
        assert not [node for node in nodes if node.state in FAILED]
