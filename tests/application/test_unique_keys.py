"""A unique key on the decorator: every call has the key that its arguments make."""

import asyncio
from dataclasses import dataclass
from datetime import date

import pytest

from onward import ArgumentError, InvalidName, JobContext, Onward, OptionError, Secret
from onward.errors import DefinitionError

pytestmark = pytest.mark.promise("S34")


@dataclass
class Order:
    id: int
    shop: str


@pytest.fixture
def sync(jobs):
    @jobs.job(unique_key="user:{user_id}")
    def sync(user_id: int, force: bool = False) -> int:
        return user_id

    return sync


class TestATemplate:
    def test_calls_with_the_same_arguments_are_one_job(self, jobs, sync):
        first, second, other = sync.enqueue(7), sync.enqueue(user_id=7, force=True), sync.enqueue(8)

        assert [first.created, second.created, other.created] == [True, False, True]
        assert second.id == first.id

    def test_the_key_is_free_when_the_job_has_ended(self, jobs, sync):
        sync.enqueue(7)
        jobs.drain()

        assert sync.enqueue(7).created

    def test_it_is_the_key_that_a_call_could_have_named(self, jobs, sync):
        first = sync.enqueue(7)

        assert sync.using(unique_key="user:7").enqueue(8).id == first.id

    def test_it_holds_where_a_call_is_awaited(self, jobs, sync):
        assert [asyncio.run(sync.aenqueue(7)).created for _ in range(2)] == [True, False]

    def test_every_call_of_a_batch_has_its_own_key(self, jobs, sync):
        sync.enqueue(7)

        handles = sync.enqueue_many([(7,), (8,), sync.call(8, force=True), (9,)])

        assert [handle.created for handle in handles] == [False, True, False, True]

    def test_it_holds_by_name(self, jobs, sync):
        sync.enqueue(7)

        created = [handle.created for handle in jobs.enqueue_many("sync", [{"user_id": 7}, {"user_id": 8}])]

        assert (jobs.enqueue("sync", {"user_id": 7}).created, created) == (False, [False, True])

    def test_a_call_that_waits_has_its_key_too(self, jobs, sync):
        later = sync.using(delay="1h")

        assert [later.enqueue(7).created, later.enqueue(7).created] == [True, False]

    def test_a_default_is_an_argument_like_any_other(self, jobs):
        @jobs.job(unique_key="{shop}:{force}")
        def sync(shop: str, *, force: bool = False): ...

        assert [sync.enqueue("a").created, sync.enqueue("a", force=False).created] == [True, False]
        assert sync.enqueue("a", force=True).created

    def test_it_may_name_parts_of_an_argument_and_how_to_write_it(self, jobs):
        @jobs.job(unique_key="{order.shop}/{order.id:04}/{day:%Y-%m}/{{{tags[0]!r}}}")
        def bill(order: Order, day: date, tags: list[str]): ...

        first = bill.enqueue(Order(42, "north"), date(2030, 1, 31), ["a"])
        same = bill.using(unique_key="north/0042/2030-01/{'a'}").enqueue(Order(1, "x"), date(2031, 1, 1), ["b"])

        assert same.id == first.id

    def test_a_template_without_names_is_one_key_for_all_calls(self, jobs):
        @jobs.job(unique_key="nightly")
        def report(day: str): ...

        assert [report.enqueue("mon").created, report.enqueue("tue").created] == [True, False]


class TestAFunction:
    def test_it_is_given_the_arguments_that_it_names(self, jobs):
        @jobs.job(unique_key=lambda order: f"order:{order.id}")
        def bill(ctx: JobContext, order: Order, note: str = ""): ...

        handles = [bill.enqueue(Order(1, "a")), bill.enqueue(Order(1, "b"), note="x"), bill.enqueue(Order(2, "a"))]

        assert [handle.created for handle in handles] == [True, False, True]

    def test_it_may_take_all_of_them(self, jobs):
        seen = []

        @jobs.job(unique_key=lambda **given: seen.append(given) or "k")
        def sync(user_id: int, *, force: bool = False): ...

        sync.enqueue(7)

        assert seen == [{"user_id": 7, "force": False}]

    def test_it_may_have_parameters_of_its_own_with_defaults(self, jobs):
        def by_user(user_id, prefix="u"):
            return f"{prefix}:{user_id}"

        @jobs.job(unique_key=by_user)
        def sync(user_id: int): ...

        sync.enqueue(7)

        assert not sync.using(unique_key="u:7").enqueue(8).created

    def test_it_sees_the_arguments_as_the_handler_will(self, jobs):
        seen = []

        @jobs.job(unique_key=lambda day: seen.append(day) or str(day))
        def report(day: date): ...

        jobs.enqueue("report", {"day": "2030-01-31"})

        assert seen == [date(2030, 1, 31)]

    def test_one_that_raises_is_named_and_nothing_is_stored(self, jobs):
        def by_first_tag(tags):
            return tags[0]

        @jobs.job(unique_key=by_first_tag)
        def sync(tags: list[str]): ...

        with pytest.raises(ArgumentError, match=r"^sync: unique_key .*by_first_tag failed .*IndexError: list index"):
            sync.enqueue_many([(["a"],), ([],)])
        assert sum(jobs.counts().values()) == 0

    @pytest.mark.parametrize("key", [42, "", None, "a\nb", "x" * 401], ids=repr)
    def test_what_cannot_be_a_key_is_refused(self, jobs, key):
        @jobs.job(unique_key=lambda: key)
        def sync(): ...

        with pytest.raises(InvalidName, match=r"sync: the key that unique_key .*lambda.* made must be printable text"):
            sync.enqueue()

    def test_arguments_are_checked_before_it_is_called(self, jobs):
        called = []

        @jobs.job(unique_key=lambda user_id: called.append(user_id) or "k")
        def sync(user_id: int): ...

        with pytest.raises(ArgumentError):
            sync.enqueue("seven")
        assert called == []

    def test_a_key_that_shows_a_masked_secret_is_refused(self, jobs):
        @jobs.job(unique_key=lambda token: f"token:{token}")
        def sync(token: Secret[str]): ...

        with pytest.raises(ArgumentError, match="puts a secret into the key"):
            sync.enqueue(Secret("s3cret"))


class TestTogetherWithOptions:
    def test_a_call_may_name_another_key(self, jobs, sync):
        sync.enqueue(7)

        assert sync.using(unique_key="again:7").enqueue(7).created

    def test_a_call_may_do_without_a_key(self, jobs, sync):
        sync.enqueue(7)

        assert [sync.using(unique_key=None).enqueue(7).created for _ in range(2)] == [True, True]

    def test_the_decorator_may_say_that_the_newest_wins(self, jobs):
        @jobs.job(unique_key="{n}", unique_strategy="cancel_existing")
        def sync(n: int): ...

        first, second = sync.enqueue(1), sync.enqueue(1)

        assert (first.state(), second.created) == ("cancelled", True)

    def test_the_strategy_of_the_decorator_holds_for_keys_of_calls(self, jobs):
        @jobs.job(unique_strategy="cancel_existing")
        def sync(): ...

        first = sync.using(unique_key="k").enqueue()
        sync.using(unique_key="k").enqueue()

        assert first.state() == "cancelled"

    def test_a_call_may_say_another_strategy(self, jobs):
        @jobs.job(unique_key="{n}", unique_strategy="cancel_existing")
        def sync(n: int): ...

        sync.enqueue(1)

        assert not sync.using(unique_strategy="ignore_new").enqueue(1).created

    def test_two_jobs_share_a_key_only_if_their_calls_ask_for_it(self, jobs, sync):
        @jobs.job(unique_key="user:{user_id}")
        def report(user_id: int): ...

        own = [job.enqueue(7).created for job in (sync, report)]
        common = [job.using(key_scope="global").enqueue(7).created for job in (sync, report)]

        assert (own, common) == ([True, True], [True, False])

    def test_a_job_that_is_replayed_takes_its_key_again(self, jobs, sync):
        sync.enqueue(7).cancel()
        (cancelled,) = jobs.list(state="cancelled")

        assert jobs.retry(cancelled.id)
        assert not sync.enqueue(7).created


class TestWhatIsRefusedWhereTheJobIsDefined:
    @pytest.mark.parametrize(
        ("key", "words"),
        [
            ("user:{user}", "unique_key 'user:{user}' wants 'user', .* did you mean 'user_id'"),
            ("{user_id.name}{ctx}", "wants 'ctx', which is no parameter"),
            ("{user_id:{size}}", "wants 'size', which is no parameter"),
            ("user:{}", "must name a parameter in {}"),
            ("user:{0}", "must name a parameter in {0}"),
            ("user:{user_id", "cannot be read: .*write {{ for a brace"),
            ("{token}", "names 'token', which is secret"),
            (lambda user: user, "wants 'user', .* did you mean 'user_id'"),
            (lambda *args: "k", "gets its arguments by name, and 'args' cannot be given so"),
            (lambda user_id, /: "k", "gets its arguments by name"),
            (dict.get, "dict.get"),
            (42, "must be a template .* or a function, not 42"),
        ],
    )
    def test_a_key_that_could_never_be_made(self, jobs, key, words):
        with pytest.raises(DefinitionError, match=words):

            @jobs.job(unique_key=key)
            def sync(ctx: JobContext, user_id: int, token: Secret[str]): ...

        assert "sync" not in jobs.names

    def test_a_function_that_is_awaited(self, jobs):
        async def key(): ...

        with pytest.raises(DefinitionError, match="is async: give a plain function"):

            @jobs.job(unique_key=key)
            def sync(): ...

    def test_an_empty_key(self, jobs):
        with pytest.raises(InvalidName, match="unique_key must be printable text"):

            @jobs.job(unique_key="")
            def sync(): ...

    def test_a_strategy_that_does_not_exist(self, jobs):
        with pytest.raises(OptionError, match="unique_strategy must be one of ignore_new, cancel_existing"):

            @jobs.job(unique_strategy="replace")
            def sync(): ...


def test_it_is_a_digest_where_arguments_are_encrypted(open_app):
    jobs = open_app(encryption=True, signing_keys=f"k1:{'s' * 40}")

    @jobs.job(unique_key="user:{user_id}")
    def sync(user_id: int): ...

    first, second, other = sync.enqueue(7), sync.enqueue(7), sync.enqueue(8)

    assert [first.created, second.created, other.created] == [True, False, True]
    assert b"user:7" not in first.record().raw


def test_a_store_that_keeps_no_unique_keys_refuses_the_job(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Onward("memory://") as jobs:
        jobs.backend.capabilities = type(jobs.backend.capabilities)(deduplicates=False)

        with pytest.raises(OptionError, match="sync: this store cannot keep unique_key"):

            @jobs.job(unique_key="k")
            def sync(): ...
