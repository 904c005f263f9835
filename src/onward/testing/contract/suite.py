"""All topics in one class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onward.testing.clock import FakeClock
from onward.testing.contract.adoption import AdoptionContract, LostRepliesContract
from onward.testing.contract.arrows import ArrowsContract
from onward.testing.contract.audit import (
    AuditContract,
    AuditLifeContract,
    AuditPagesContract,
    AuditSteeringContract,
)
from onward.testing.contract.batches import BatchesContract, TurnsContract
from onward.testing.contract.booking import BookingContract, TakingBackContract
from onward.testing.contract.cancelling import AskedToCancelContract, CancellingContract, ExpiryContract
from onward.testing.contract.capabilities import missing
from onward.testing.contract.claiming import ClaimingContract, LeasesContract, OrderContract, PromotionContract
from onward.testing.contract.clocks import ClocksContract
from onward.testing.contract.deaths import DeathGroupsContract, GroupQueriesContract
from onward.testing.contract.durability import DurabilityContract
from onward.testing.contract.enqueueing import (
    DueContract,
    EnqueueingContract,
    RefusedContract,
    RetriedEnqueueContract,
)
from onward.testing.contract.evidence import (
    EvidenceContract,
    NoEvidenceContract,
    OtherMovesContract,
    TurnedEvidenceContract,
)
from onward.testing.contract.fencing import FencingContract, GenerationsContract
from onward.testing.contract.flow_changes import FlowRetentionContract, FlowSteeringContract
from onward.testing.contract.flow_ends import FlowEndsContract
from onward.testing.contract.flow_growing import GrowingContract
from onward.testing.contract.flow_rules import FlowRulesContract
from onward.testing.contract.flow_transactions import FlowTransactionsContract
from onward.testing.contract.flows import FlowsContract
from onward.testing.contract.forgetting import ForgettingContract
from onward.testing.contract.holds import ConfirmedContract, HoldsContract, TwoHoldsContract
from onward.testing.contract.inspection import CountsContract, GettingContract, ListingContract, RunNowContract
from onward.testing.contract.lanes import LaneOrderContract, LanesContract
from onward.testing.contract.limits import LimitRowsContract, RunningContract
from onward.testing.contract.notes import NotesContract
from onward.testing.contract.origins import RunOriginsContract
from onward.testing.contract.overview import OverviewContract, SessionListContract
from onward.testing.contract.pausing import PausingContract
from onward.testing.contract.places import LimitedPlacesContract, PlacesContract
from onward.testing.contract.rates import GatesContract, RatesContract
from onward.testing.contract.reaping import CrashesContract, InterruptionsContract, ReapedContract
from onward.testing.contract.reasons import ReasonsContract
from onward.testing.contract.records import DeadLetterContract, RunRecordsContract, TombstoneContract
from onward.testing.contract.removing import EmptyContract, PruneContract, PurgeContract, TombstonePruneContract
from onward.testing.contract.replaying import ReplayContract, SkippedReplayContract
from onward.testing.contract.samples import MergingContract, SamplesContract
from onward.testing.contract.schedules import DamagedSchedulesContract, SchedulesContract
from onward.testing.contract.sessions import DeadSessionsContract, SessionsContract, SweepsContract
from onward.testing.contract.settling import CountersContract, FatesContract, MarksContract
from onward.testing.contract.signals import SignalsContract, WaitingForSignalsContract
from onward.testing.contract.snapshots import SnapshotsContract
from onward.testing.contract.suspects import SuspectsContract
from onward.testing.contract.taking import TakingContract
from onward.testing.contract.transacting import CallersConnectionContract, CompletingContract, JoiningContract
from onward.testing.contract.transfer import RemoveContract, ReservationContract, RestoreContract
from onward.testing.contract.uniqueness import ReplacingContract, UniquenessContract
from onward.testing.contract.waiters import WaitersContract, WakingContract
from onward.testing.contract.waiting import WaitingContract
from onward.testing.contract.working import QueuesWithWorkContract

__all__ = ["BackendContract"]


class BackendContract(
    ArrowsContract,
    EnqueueingContract,
    RetriedEnqueueContract,
    DueContract,
    RefusedContract,
    ClaimingContract,
    OrderContract,
    PromotionContract,
    LeasesContract,
    FatesContract,
    CountersContract,
    MarksContract,
    RunRecordsContract,
    TombstoneContract,
    DeadLetterContract,
    FencingContract,
    GenerationsContract,
    EvidenceContract,
    OtherMovesContract,
    TurnedEvidenceContract,
    NoEvidenceContract,
    SessionsContract,
    DeadSessionsContract,
    SweepsContract,
    ReapedContract,
    CrashesContract,
    InterruptionsContract,
    SuspectsContract,
    AdoptionContract,
    LostRepliesContract,
    HoldsContract,
    ConfirmedContract,
    TwoHoldsContract,
    ForgettingContract,
    WakingContract,
    WaitersContract,
    UniquenessContract,
    ReplacingContract,
    CancellingContract,
    AskedToCancelContract,
    ExpiryContract,
    GettingContract,
    ListingContract,
    CountsContract,
    RunNowContract,
    OverviewContract,
    SessionListContract,
    PlacesContract,
    SamplesContract,
    MergingContract,
    SnapshotsContract,
    RunOriginsContract,
    DeathGroupsContract,
    GroupQueriesContract,
    ReplayContract,
    SkippedReplayContract,
    PurgeContract,
    PruneContract,
    TombstonePruneContract,
    EmptyContract,
    PausingContract,
    BatchesContract,
    TurnsContract,
    ClocksContract,
    DurabilityContract,
    WaitingContract,
    QueuesWithWorkContract,
    JoiningContract,
    CallersConnectionContract,
    CompletingContract,
    ReservationContract,
    RestoreContract,
    RemoveContract,
    TakingContract,
    NotesContract,
    SignalsContract,
    WaitingForSignalsContract,
    SchedulesContract,
    BookingContract,
    TakingBackContract,
    DamagedSchedulesContract,
    LanesContract,
    LaneOrderContract,
    RunningContract,
    RatesContract,
    GatesContract,
    LimitRowsContract,
    LimitedPlacesContract,
    ReasonsContract,
    FlowsContract,
    FlowEndsContract,
    FlowRulesContract,
    GrowingContract,
    FlowSteeringContract,
    FlowRetentionContract,
    FlowTransactionsContract,
    AuditContract,
    AuditSteeringContract,
    AuditLifeContract,
    AuditPagesContract,
):
    """Subclass it, give it ``backend`` and ``open_client``, and run pytest.

    ``backend`` is a store that is empty and goes by ``clock``; ``open_client()`` opens another client on the same store
    (a store that lives in one process returns the same object).  ``lose_session(owner)``, where given, removes a
    session's row behind the store's back; ``damage_schedule(name)`` writes into a schedule's row what no process writes.
    """

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def backend(self) -> Any:
        raise NotImplementedError("give the suite a `backend` fixture: an empty store that goes by `clock`")

    @pytest.fixture
    def open_client(self) -> Callable[[], Any]:
        raise NotImplementedError("give the suite an `open_client` fixture: a function that opens the same store again")

    @pytest.fixture
    def lose_session(self) -> Callable[[str], None]:
        pytest.skip("no `lose_session` fixture is given: no test can remove a session without its leases")

    @pytest.fixture
    def damage_schedule(self) -> Callable[[str], None]:
        pytest.skip("no `damage_schedule` fixture is given: no test can write what no process writes")

    @pytest.fixture(autouse=True)
    def _skip_what_is_missing(self, request: pytest.FixtureRequest, backend: Any) -> None:
        if lacking := missing(request.function, backend):
            pytest.skip(f"this backend does not declare: {', '.join(lacking)}")
