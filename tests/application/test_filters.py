"""The filter language: what each word finds, how far a search looks, and what a filter that cannot be read is told."""

import asyncio
import re
import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import OptionError, Secret
from onward.base.names import like
from onward.errors import BackendUnavailable
from onward.operate import filters, finding
from onward.operate.filters import FilterError, parse, quoted


@pytest.fixture
def mail(jobs):
    """Sixteen jobs, each a minute after the one before; those of even users die."""

    def send(user_id: int, to: list[str], order: dict[str, int], password: str, card: Secret[str]) -> None:
        if user_id % 2 == 0:
            raise TimeoutError(f"no answer for {user_id}")

    return jobs.job(queue="mail", name="send_mail")(send)


@pytest.fixture
def ids(jobs, mail, clock):
    made = []
    for user_id in range(16):
        card = Secret(f"4242-{user_id}")
        made.append(mail.enqueue(user_id, [f"u{user_id}@x"], {"id": user_id}, f"hunter{user_id}", card).id)
        clock.advance(60)
    jobs.drain()
    return made


def found(jobs, text, **options):
    return [record.id for record in jobs.find(text, **options).jobs]


class TestWords:
    @pytest.mark.parametrize(
        ("text", "users"),
        [
            ("state:dead", range(0, 16, 2)),
            ("state:discarded", range(0, 16, 2)),
            ("STATE:Dead,completed", range(16)),
            ("state:done state:dead", range(16)),
            ("queue:mail", range(16)),
            ("queue:default", ()),
            ("queue:m*l", range(16)),
            ("job:send_mail", range(16)),
            ("job:send_*", range(16)),
            ("job:*_post", ()),
            ("since:3m", (13, 14, 15)),
            ("until:14m", (0, 1, 2)),
            ("since:5m until:3m", (11, 12, 13)),
            ("since:2h since:3m", (13, 14, 15)),
            ("ended-since:1s state:dead", range(0, 16, 2)),
            ("ended-until:1s", ()),
            ("error:timeout", range(0, 16, 2)),
            ("error:TimeoutError*12", (12,)),
            ('error:"no answer for 4"', (4,)),
            ("error:ValueError", ()),
            ("arg.user_id:7", (7,)),
            ("arg.order.id:7", (7,)),
            ("arg.to:u7@x", (7,)),
            ("arg.to.0:u7@x", (7,)),
            ("arg.to.1:u7@x", ()),
            ("arg.user_id.x:7", ()),
            ("arg.nothing:7", ()),
            ("u11@x", (11,)),
            ("send_mail no answer", range(0, 16, 2)),
            ("state:dead arg.user_id:7", ()),
            ("", range(16)),
        ],
    )
    def test_each_finds_what_it_says_newest_first(self, jobs, ids, text, users):
        assert found(jobs, text) == [ids[user] for user in reversed(users)]

    def test_an_instant_may_be_named(self, jobs, ids, clock):
        three = (clock.now() - timedelta(minutes=13)).isoformat()

        assert found(jobs, f"until:{three}") == [ids[user] for user in (3, 2, 1, 0)]

    def test_by_names_the_session_or_its_host(self, jobs, ids):
        (owner,) = {record.errors[0].owner for record in jobs.find("state:dead").jobs}

        assert len(found(jobs, f"by:{owner}")) == 16
        assert found(jobs, f"by:{owner[:8]}*")
        assert found(jobs, f"by:{owner[:8]}") == []

    def test_by_names_the_host_of_a_worker_that_lives(self, jobs, ids):
        (session,) = jobs.sessions()

        assert len(found(jobs, f"by:{session.host}")) == 16


class TestSecrets:
    @pytest.mark.parametrize(
        "text", ["arg.password:hunter3", "arg.card:4242-3", "hunter3", "4242-3", "arg.password:hunter*"]
    )
    def test_they_are_never_matched_in_the_clear(self, jobs, ids, text):
        assert found(jobs, text) == []

    def test_their_mask_is_matched_as_it_is_shown(self, jobs, ids):
        assert len(found(jobs, 'arg.password:"***"')) == 16

    def test_arguments_are_compared_only_where_the_job_is_defined(self, store, ids, open_app):
        if store == "memory":
            pytest.skip("no other application sees it")
        stranger = open_app()

        by_argument = stranger.find("arg.user_id:7")

        assert (by_argument.jobs, by_argument.hidden) == ((), 16)
        assert stranger.find("u7@x").jobs == ()
        assert len(stranger.find("state:dead").jobs) == 8


class TestPages:
    @pytest.mark.parametrize("text", ["queue:mail", "arg.to:*"])
    def test_they_go_by_id_and_come_to_an_end(self, jobs, ids, text):
        seen, after = [], None
        while True:
            page = jobs.find(text, limit=5, after=after)
            seen += [record.id for record in page.jobs]
            after = page.next
            if after is None:
                break

        assert seen == ids[::-1]

    def test_a_search_stops_after_so_many_jobs_and_says_where_to_go_on(self, jobs, ids, monkeypatch):
        monkeypatch.setattr(finding, "LOOKED_AT", 6)

        first = jobs.find("arg.user_id:7")

        assert (first.jobs, first.looked, first.next) == ((), 6, ids[10])
        second = jobs.find("arg.user_id:7", after=first.next)
        assert [record.id for record in second.jobs] == [ids[7]]

    def test_a_search_stops_after_a_second(self, jobs, ids, monkeypatch):
        monkeypatch.setattr(finding, "LOOKED_FOR", -1.0)

        page = jobs.find("arg.user_id:7")

        assert (page.looked, page.next) == (1, ids[15])

    def test_what_lies_beyond_a_bound_is_not_looked_at(self, jobs, ids):
        assert jobs.find("since:3m arg.user_id:1").looked == 3

    @pytest.mark.parametrize("limit", [0, -1, 1_001, True, "5"])
    def test_a_page_has_a_size(self, jobs, limit):
        with pytest.raises(OptionError, match="limit must be a whole number from 1 to 1,000"):
            jobs.find("", limit=limit)

    def test_it_can_be_awaited(self, jobs, ids):
        assert len(asyncio.run(jobs.afind("state:dead")).jobs) == 8


class TestStars:
    @given(st.text("aAbß*", max_size=8), st.text("aAbBßs", max_size=12))
    def test_a_star_stands_for_any_text_and_letters_count_alike(self, text, value):
        meant = re.compile(".*".join(map(re.escape, text.casefold().split("*"))), re.DOTALL)

        assert like(text)(value) == bool(meant.fullmatch(value.casefold()))

    @pytest.mark.parametrize("text", ["*" + "a*" * 100 + "b", "a*" * 50 + "ab*ba", "*".join("ab" * 200)])
    def test_stars_do_not_multiply_the_time_that_a_long_value_takes(self, text):
        value = "a" * 300_000
        begun = time.process_time()

        assert not like(text)(value)

        assert time.process_time() - begun < 1


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "column", "told"),
        [
            ("stat:dead", 1, "there is no word 'stat': did you mean 'state'?"),
            ("queue:mail stat:dead", 12, "there is no word 'stat'"),
            ("state:ded", 7, "there is no state 'ded': did you mean 'dead'?"),
            ("state:dead,runing", 12, "there is no state 'runing': did you mean 'running'?"),
            ("queue:", 7, "has no value"),
            ('queue:""', 7, "has no value"),
            ("since:2x", 7, "'2x' is no time: write how long ago"),
            ("since:2030-01-31T12:00", 7, "is no time"),
            ("until:2030-99-31", 7, "is no time"),
            ("http://shop", 1, 'text with a colon is written in quotes: "http://shop"'),
            ('"abc', 1, "the quotes are not closed"),
            ('queue:"mail', 7, "the quotes are not closed"),
            ('"a"b', 4, "a blank must follow"),
            ("arg:3", 1, "write arg.user_id:42"),
            ("queue:a queue:b", 9, "queue is named twice"),
            ("queue.x:1", 1, "only arg has parts"),
            ("group:3f*", 7, "a group is named by its beginning"),
            ("x" * 2_001, 2_001, "it has 2,001 characters"),
            ("a " * 51, 101, "more than 50 words"),
        ],
    )
    def test_they_name_the_column_and_the_fix(self, jobs, text, column, told):
        with pytest.raises(FilterError) as raised:
            jobs.find(text)

        assert raised.value.column == column
        assert str(raised.value).startswith(f"filter, column {column}: ")
        assert told in str(raised.value)
        assert isinstance(raised.value, OptionError)

    def test_a_filter_is_text(self, jobs):
        with pytest.raises(OptionError, match="a filter is text"):
            jobs.find(None)


@pytest.mark.parametrize("value", ["mail", "a b", 'say "hi"', "back\\slash", "", "x:y", '"', "\\"])
def test_a_quoted_value_is_read_as_it_was(value):
    if value == "":
        assert quoted(value) == '""'
    else:
        assert parse(f"queue:{quoted(value)}", 0).queue == value


def test_every_word_is_explained():
    assert {word.partition(".")[0] for word in filters.WORDS} == set(filter(None, filters._READERS))


class TestSlowStores:
    """A store that cannot find in time what it could compare itself is walked through, as far as a search goes."""

    @pytest.fixture
    def asked(self, jobs, ids, monkeypatch):
        asked, ask = [], jobs.backend.list

        def slow(query):
            asked.append(query)
            if query.within is not None:
                raise BackendUnavailable("a look took longer than 0.5 s")
            return ask(query)

        monkeypatch.setattr(jobs.backend, "list", slow)
        return asked

    @pytest.mark.parametrize(
        "text", ["queue:mail", "job:send_mail", "state:dead", "state:dead queue:mail since:5m", "arg.user_id:7"]
    )
    def test_they_find_the_same(self, jobs, ids, asked, text, monkeypatch):
        slowly = found(jobs, text)
        monkeypatch.undo()

        assert slowly == found(jobs, text)

    @pytest.mark.parametrize("text", ["queue:rare", "job:rare", "state:cancelled"])
    def test_a_search_in_vain_ends_after_so_many_jobs(self, jobs, ids, asked, text, monkeypatch):
        monkeypatch.setattr(finding, "LOOKED_AT", 6)

        page = jobs.find(text)

        assert (page.jobs, page.looked, page.next) == ((), 6, ids[10])
        assert [query.within for query in asked] == [finding.STORE_LOOKS_FOR, None]

    def test_a_group_has_an_index(self, jobs, ids, asked):
        (group,) = jobs.dead_letters.groups()

        assert len(jobs.find(f"group:{group.fingerprint}").jobs) == 8
        assert [query.within for query in asked] == [None]

    def test_jobs_that_are_named_have_one_too(self, jobs, ids, asked):
        assert found(jobs, f"id:{ids[3]},{ids[5]}") == [ids[5], ids[3]]
        assert [query.within for query in asked] == [None]

    def test_so_have_those_of_a_flow(self, jobs, ids, asked, mail):
        if not jobs.backend.capabilities.flows:
            pytest.skip("it keeps no flows")
        flow = jobs.flow("news")
        flow.add(mail, 1, [], {}, "x", Secret("y"))
        handle = flow.enqueue()
        asked.clear()

        (job,) = jobs.find(f"flow:{handle.id}").jobs

        assert job.id not in ids
        assert {query.within for query in asked} == {None}

    def test_a_store_that_is_away_is_told(self, jobs, ids, monkeypatch):
        def away(query):
            raise BackendUnavailable("the server is gone")

        monkeypatch.setattr(jobs.backend, "list", away)

        with pytest.raises(BackendUnavailable, match="the server is gone"):
            jobs.find("queue:mail")
