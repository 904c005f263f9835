"""What newcomers write first: each is an error that names the word to write instead, or simply works."""

import asyncio
import builtins
import functools
import subprocess
import sys
import textwrap

import pytest

from onward import ArgumentError, BackendMisconfigured, JobContext, Onward, OptionError
from onward.errors import DefinitionError


@pytest.fixture
def jobs():
    with Onward("memory://") as jobs:
        yield jobs


@pytest.fixture
def send(jobs):
    @jobs.job
    def send(to: int, body: str = "") -> int:
        return to

    return send


class TestOptionsAmongArguments:
    @pytest.mark.parametrize(
        ("given", "ours"), [("delay", "delay"), ("queue", "queue"), ("countdown", "delay"), ("eta", "at")]
    )
    def test_one_names_using(self, send, given, ours):
        with pytest.raises(ArgumentError, match=rf"{given!r}.*write send\.using\({ours}=…\)\.enqueue\(…\)"):
            send.enqueue(1, **{given: 5})

    def test_a_parameter_of_that_name_is_a_parameter(self, jobs):
        @jobs.job
        def wait(delay: int) -> int:
            return delay

        assert wait.enqueue(delay=5).id

    def test_a_word_that_is_no_option_is_no_parameter(self, send):
        with pytest.raises(ArgumentError, match="has no parameter 'boddy': did you mean 'body'"):
            send.enqueue(1, boddy="x")


class TestOptionsFromElsewhere:
    @pytest.mark.parametrize(
        ("given", "ours"),
        [("eta", "at"), ("countdown", "delay"), ("max_tries", "max_attempts"), ("time_limit", "timeout")],
    )
    def test_using_names_ours(self, send, given, ours):
        with pytest.raises(OptionError, match=rf"using\(\) has no option '{given}': here it is called '{ours}'"):
            send.using(**{given: 5})

    def test_the_decorator_names_the_place_where_it_belongs(self, jobs):
        with pytest.raises(OptionError, match=r"f\.using\(delay=…\)\.enqueue"):
            jobs.job(countdown=5)(len)
        with pytest.raises(OptionError, match="'retries': here it is called 'max_retries'"):
            jobs.job(retries=5)(len)

    def test_using_names_the_decorator_for_what_belongs_there(self, send):
        with pytest.raises(OptionError, match=r"@jobs\.job\(isolation=…\)"):
            send.using(isolation="process")

    def test_a_typo_is_still_a_typo(self, send):
        with pytest.raises(OptionError, match="did you mean 'priority'"):
            send.using(prioritee=1)


class TestMethodsFromElsewhere:
    @pytest.mark.parametrize(
        ("method", "ours"),
        [
            ("delay", "send.enqueue("),
            ("send", "send.enqueue("),
            ("perform_async", "send.enqueue("),
            ("apply_async", "send.using(…).enqueue("),
            ("perform_in", "send.using(delay=…).enqueue("),
            ("enqueue_at", "send.using(at=…).enqueue("),
        ],
    )
    def test_one_names_ours(self, send, method, ours):
        with pytest.raises(AttributeError) as raised:
            getattr(send, method)

        assert f"a job has no method {method!r}: write {ours}" in str(raised.value)

    def test_they_are_not_there(self, send):
        assert not hasattr(send, "delay")
        assert "delay" not in dir(send)
        with pytest.raises(AttributeError, match="a job has no attribute 'dely'"):
            _ = send.dely


class TestFunctionsThatCannotBeJobs:
    @pytest.mark.parametrize("name", ["ctx", "context"])
    def test_a_context_without_its_annotation(self, jobs, name):
        space = {}
        exec(f"def work({name}, n: int): ...", space)

        with pytest.raises(DefinitionError, match=f"write `{name}: JobContext`"):
            jobs.job(space["work"])

    def test_an_argument_of_that_name_says_its_type(self, jobs):
        @jobs.job
        def work(context: dict[str, int]) -> int:
            return context["a"]

        assert work.enqueue({"a": 1}).id

    def test_a_method(self, jobs):
        with pytest.raises(DefinitionError, match="'send' is a method, and its 'self' does not travel"):

            class Mailer:
                @jobs.job
                def send(self, to: int) -> None: ...

    def test_a_static_method_is_a_function(self, jobs):
        class Mailer:
            @jobs.job
            @staticmethod
            def send(to: int) -> int:
                return to

        handle = Mailer.send.enqueue(1)
        jobs.drain()
        assert handle.result() == 1

    def test_a_generator(self, jobs):
        with pytest.raises(DefinitionError, match=r"'numbers' is a generator, .*return a list"):

            @jobs.job
            def numbers(n: int):
                yield n

    def test_an_async_generator(self, jobs):
        with pytest.raises(DefinitionError, match=r"'numbers' is an async generator, .*enqueue a job for each"):

            @jobs.job
            async def numbers(n: int):
                yield n

    def test_a_lambda_needs_a_name(self, jobs):
        with pytest.raises(DefinitionError, match=r"a lambda has no name .*jobs\.job\(name=…\)"):
            jobs.job(lambda: 1)

        handle = jobs.job(name="one")(lambda: 1).enqueue()
        jobs.drain()
        assert handle.result() == 1

    def test_so_does_a_partial_one(self, jobs):
        def add(ctx: JobContext, a: int, b: int, c: int = 0) -> int:
            return a + b + c

        with pytest.raises(DefinitionError, match=r"partial object has no name .*jobs\.job\(name=…\)"):
            jobs.job(functools.partial(add, c=4))

        handle = jobs.job(name="add")(functools.partial(add, c=4)).enqueue(1, b=2)
        jobs.drain()
        assert handle.result() == 7


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("jobs.db", "sqlite:///jobs.db"),
        ("/tmp/x.db", "sqlite:////tmp/x.db"),
        ("./data/jobs.sqlite3", "sqlite:///./data/jobs.sqlite3"),
        (":memory:", "memory://"),
        ("localhost:6379", "redis://localhost:6379"),
        ("localhost:6379/0", "redis://localhost:6379"),
        ("db.internal:5432", "postgresql://USER@db.internal:5432/DATABASE"),
        ("[::1]:3306", "mysql://USER@[::1]:3306/DATABASE"),
        ("localhost:1234", "redis://localhost:1234 or postgresql://"),
    ],
)
def test_what_is_no_url_names_the_url(given, meant):
    with pytest.raises(BackendMisconfigured) as raised:
        Onward(given)

    assert meant in str(raised.value)


@pytest.mark.parametrize("given", ["ann:s3cret@localhost:6379", "ann:s3cret@/tmp/jobs.db", "ann:s3cret"])
def test_a_password_is_never_told(given):
    with pytest.raises(BackendMisconfigured) as raised:
        Onward(given)

    assert "s3cret" not in str(raised.value)


class TestEnqueueingAJobByTheApplication:
    def test_it_takes_the_job_and_its_arguments(self, jobs, send):
        handle = jobs.enqueue(send, 1, body="hello")
        jobs.drain()

        assert handle.result() == 1

    def test_with_its_options(self, jobs, send):
        assert jobs.get(jobs.enqueue(send.using(queue="mail"), 1).id).queue == "mail"

    def test_it_takes_the_function_that_was_made_one(self, jobs):
        def add(a: int, b: int) -> int:
            return a + b

        jobs.job(add)
        handle = jobs.enqueue(add, 1, b=2)
        jobs.drain()

        assert handle.result() == 3

    def test_a_parameter_may_be_called_job(self, jobs):
        @jobs.job
        def run(job: str, payload: str, self: str = "") -> str:
            return job + payload

        handle = jobs.enqueue(run, job="a", payload="b", self="c")
        jobs.drain()

        assert handle.result() == "ab"

    def test_so_may_a_coroutine(self, jobs, send):
        async def main():
            return await jobs.aenqueue(send, 1, body="hello")

        handle = asyncio.run(main())
        jobs.drain()
        assert handle.result() == 1

    def test_by_name_it_is_as_before(self, jobs):
        handle = jobs.enqueue("elsewhere", {"a": 1}, queue="mail")

        assert (jobs.get(handle.id).job, jobs.get(handle.id).queue) == ("elsewhere", "mail")

    def test_a_function_that_is_no_job_is_refused(self, jobs):
        with pytest.raises(ArgumentError, match=r"is no job: make it one with @jobs\.job"):
            jobs.enqueue(len, [])

    def test_a_job_of_another_application_is_refused(self, send):
        with Onward("memory://") as others, pytest.raises(ArgumentError, match="another application"):
            others.enqueue(send, 1)


class TestDefiningAgain:
    def define(self, jobs, value, module="shop"):
        def work() -> int:
            return value

        work.__module__, work.__qualname__ = module, "work"
        return jobs.job(aliases=[f"alias-{value}"])(work)

    def test_elsewhere_it_is_an_error_that_names_the_first(self, jobs):
        self.define(jobs, 1)

        with pytest.raises(DefinitionError, match=r"'work' is already registered, in .*test_hints\.py, line \d+: give"):
            self.define(jobs, 2)

    def test_in_a_notebook_the_later_one_counts(self, jobs, monkeypatch):
        monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
        first = self.define(jobs, 1)
        second = self.define(jobs, 2)

        handles = [first.enqueue(), second.enqueue(), jobs.enqueue("work")]
        jobs.drain()

        assert [handle.result() for handle in handles] == [2, 2, 2]
        assert jobs.names == ["alias-2", "work"]

    def test_nor_do_two_functions_share_a_name_there(self, jobs, monkeypatch):
        monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
        self.define(jobs, 1, module="shop")

        with pytest.raises(DefinitionError, match="already registered"):
            self.define(jobs, 2, module="another")

    def test_in_a_program_s_own_module_too(self):
        program = """
            from onward import Onward

            jobs = Onward("memory://")
            for value in (1, 2):
                @jobs.job
                def work() -> int:
                    return value

            work.enqueue()
            print(jobs.drain())
        """
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
        )

        assert (ran.stdout, ran.returncode) == ("1\n", 0), ran.stderr
