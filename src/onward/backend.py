"""The door to the contract of stores, for authors of a store and for the rooms that use one.  Its text is in
`onward.contract.backend`.
"""

from onward.base.failure import Failure
from onward.contract import (
    audit,
    backend,
    capabilities,
    deaths,
    flows,
    inspection,
    limits,
    notes,
    samples,
    schedules,
    snapshot,
    values,
)
from onward.contract.audit import *  # noqa: F403  a door names what is behind it once
from onward.contract.backend import *  # noqa: F403
from onward.contract.capabilities import *  # noqa: F403
from onward.contract.deaths import *  # noqa: F403
from onward.contract.flows import *  # noqa: F403
from onward.contract.inspection import *  # noqa: F403
from onward.contract.limits import *  # noqa: F403
from onward.contract.notes import *  # noqa: F403
from onward.contract.samples import *  # noqa: F403
from onward.contract.schedules import *  # noqa: F403
from onward.contract.snapshot import *  # noqa: F403
from onward.contract.values import *  # noqa: F403
from onward.job.envelope import Envelope, Sealed
from onward.job.lease import Hold, Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Answer, Settled, Settlement

__all__ = ["Answer", "Envelope", "Failure", "Hold", "Lease", "RanBy", "Sealed", "Settled", "Settlement"]
__all__ += audit.__all__
__all__ += backend.__all__
__all__ += capabilities.__all__
__all__ += deaths.__all__
__all__ += flows.__all__
__all__ += inspection.__all__
__all__ += limits.__all__
__all__ += notes.__all__
__all__ += samples.__all__
__all__ += schedules.__all__
__all__ += snapshot.__all__
__all__ += values.__all__
