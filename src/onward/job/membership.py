"""What a job's flow looks like when it is enqueued: its nodes, and what each of them comes after.

A plan travels with the first envelope of a flow, beside the sealed bytes: the store keeps it as rows.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["FlowPlan", "NodePlan", "When"]

When = Literal["succeeded", "failed", "finished"]


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A node before it is stored."""

    name: str
    after: tuple[str, ...] = ()
    when: When = "succeeded"


class FlowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A flow before it is stored.  Its nodes stand in such an order that each comes after those that it names."""

    name: str
    nodes: tuple[NodePlan, ...]
    stop_on_failure: bool = False
    closed: bool = True  # False: jobs are added from outside until it is closed
