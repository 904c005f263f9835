"""The API is what its OpenAPI says: schemathesis asks it, all checks, through ASGI and WSGI."""

import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from onward import Onward
from onward.web import Dashboard, Token
from onward.web.handlers import _HANDLERS
from onward.web.openapi import openapi
from onward.web.routes import ROUTES
from tests.web.asking import PEOPLE, TOKENS, fill
from tools import web_types

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    # The worker's threads draw their jitter while Hypothesis draws a request, and are taken for a strategy.
    "ignore::hypothesis.errors.HypothesisDeprecationWarning",
)


@pytest.mark.promise("S149")
def test_every_route_has_a_handler_and_no_handler_is_left_over():
    assert set(_HANDLERS) == {f"{route.method} {route.path}" for route in ROUTES}


@pytest.mark.promise("S149")
def test_the_types_of_the_page_are_those_of_the_table():
    file = Path(__file__).parents[2] / web_types.FILE

    assert file.read_text(encoding="utf-8") == web_types.text(ROUTES)


@pytest.fixture(scope="module")
def spec():
    return openapi(ROUTES)


@pytest.mark.promise("S149")
def test_the_description_can_be_sent(spec):
    json.dumps(spec)
    assert spec["openapi"] == "3.1.0"
    assert len(spec["paths"]) == len({route.path for route in ROUTES})


TERMS = ["state:dead", "queue:mail", "since:2h", "job:send", "error:Value", "arg.user_id:1", "later", "id:" + "0" * 32]
schemathesis.openapi.format(
    "onward-filter", st.lists(st.sampled_from(TERMS), min_size=1, max_size=3, unique=True).map(" ".join)
)
schemathesis.openapi.format("date-time", st.datetimes().map(lambda at: at.isoformat() + "Z"))
schemathesis.openapi.format("json-text", st.sampled_from(["1", '"text"', "null", "[1, 2]"]))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A shop that schemathesis may do to what it wants."""
    with Onward(f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db?durability=relaxed") as jobs:
        fill(jobs)
        with jobs.worker(concurrency=2):  # so that a canary ends
            yield Dashboard(jobs, auth=Token(PEOPLE))


@pytest.fixture(scope="module", params=["asgi", "wsgi"])
def operations(request, filled, spec):
    schema = schemathesis.openapi.from_dict(spec)
    schema.app = getattr(filled, request.param)
    found = [result.ok() for result in schema.get_all_operations()]
    return {f"{each.method.upper()} {each.path.lstrip('/')}": each for each in found}


@pytest.mark.promise("S149")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_api_is_what_its_description_says(operations, route):
    operation = operations[f"{route.method} {route.path}"]
    modes = [GenerationMode.POSITIVE] + [GenerationMode.NEGATIVE] * bool(route.body or route.query.__struct_fields__)

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def ask(data):
        case = data.draw(data.draw(st.sampled_from([operation.as_strategy(generation_mode=mode) for mode in modes])))
        case.call_and_validate(headers={"Authorization": f"Bearer {TOKENS['anna']}"})

    ask()
