"""Pages of jobs: the server is asked for a stretch at a time, and a caller may end the search."""

import pytest
from msgspec import structs

from onward.backend import Query
from onward.errors import BackendUnavailable
from onward.testing.contract.builders import some_envelopes


def test_a_page_of_jobs_that_is_not_found_in_time_is_given_up(backend):
    for _ in range(3):
        backend.enqueue(some_envelopes(1_000))
    rare = Query(queue="rare", newest_first=True)

    with pytest.raises(BackendUnavailable, match=r"a page of jobs took longer than 1e-06 s"):
        backend.list(structs.replace(rare, within=1e-6))

    assert backend.list(structs.replace(rare, within=60.0)) == []
