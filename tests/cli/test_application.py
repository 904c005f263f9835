"""How a command names an application: an attribute of a module, an attribute of that, or a function that makes one."""

import pytest

JOBS = """\
from onward import Onward

def add_jobs(jobs):
    @jobs.job(queue="mail")
    def welcome(user: int) -> str:
        return f"user {{user}} welcomed"

    @jobs.job(queue="mail", isolation="process")
    def alone() -> str:
        return "done"

    return jobs
"""

INSIDE = f"""{JOBS}
class app:
    jobs = add_jobs(Onward({{url!r}}))

class web:
    class extensions:
        jobs = app.jobs
"""

FACTORY = f"""{JOBS}
def create(debug=False):
    return add_jobs(Onward({{url!r}}))

class Web:
    @staticmethod
    def create():
        return create()
"""

WRONG = """\
from onward import Onward
from onward.compat.celery import Celery

celery = Celery("shop", set_as_current=False)
text = "not an application"
number = 7

def create():
    return Onward({url!r})

def named(url, *, debug):
    return Onward(url)

def nothing():
    pass

def shim():
    return celery

def broken():
    raise KeyError("SHOP_URL")

async def later():
    return Onward({url!r})

class app:
    text = "not an application"
    jobs = Onward({url!r})

class Lazy:
    def __getattr__(self, name):
        raise RuntimeError("no request")

lazy = Lazy()
"""


@pytest.fixture
def module(shop, url):
    """A module with this source: ``module(WRONG)`` gives its name."""
    return lambda source: shop(url, source).partition(":")[0]


PLACES = [(INSIDE, "app.jobs"), (INSIDE, "web.extensions.jobs"), (FACTORY, "create()"), (FACTORY, "Web.create()")]


@pytest.mark.parametrize(("source", "place"), PLACES)
def test_a_command_takes_store_and_jobs_from_it(onward, jobs, module, source, place):
    ran = onward("enqueue", "welcome", "user=1", "--app", f"{module(source)}:{place}")

    assert (ran.code, ran.err) == (0, "")
    assert jobs.get(ran.out.strip()).queue == "mail"


@pytest.mark.parametrize(("source", "place"), PLACES)
@pytest.mark.parametrize("command", ["config", "health", "worker list"])
def test_so_do_the_others(onward, jobs, module, command, source, place):
    ran = onward(*command.split(), "--app", f"{module(source)}:{place}", "--quiet")

    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(("source", "place"), PLACES)
def test_workers_find_it_and_so_do_isolated_processes(shell, module, jobs, source, place):
    app = f"{module(source)}:{place}"
    handles = [jobs.enqueue("welcome", {"user": 1}, queue="mail"), jobs.enqueue("alone", queue="mail")]

    ran = shell("worker", app, "--until-empty")

    assert ran.code == 0, ran.err
    assert [handle.result(timeout=60) for handle in handles] == ["user 1 welcomed", "done"]


@pytest.mark.parametrize(("source", "place"), PLACES[::2])
def test_the_command_line_says_which_store(shell, shop, url, jobs, tmp_path, source, place):
    name = shop("sqlite:///never.db", source).partition(":")[0]
    handle = jobs.enqueue("welcome", {"user": 1}, queue="mail")

    ran = shell("worker", f"{name}:{place}", "--url", url, "--until-empty")

    assert ran.code == 0, ran.err
    assert handle.result(timeout=60) == "user 1 welcomed"
    assert not (tmp_path / "never.db").exists()


@pytest.mark.parametrize(
    ("place", "fix"),
    [
        ("creaet()", "has no attribute 'creaet': did you mean 'create'?"),
        ("app.jbos", "app has no attribute 'jbos': did you mean 'jobs'?"),
        ("text.jobs", "text has no attribute 'jobs'"),
        ("app.text", "app.text is a str and no application"),
        ("number", "number is an int and no application"),
        ("celery", "celery is a Celery and no application: write {module}:celery.jobs"),
        ("create", "create is a function: write {module}:create() to call it"),
        ("text()", "text is a str, which cannot be called: leave () out"),
        ("app.jobs()", "app.jobs is an application, which is not called: write {module}:app.jobs"),
        ("named()", "named() needs arguments (url, debug): give them defaults, or name a function that takes none"),
        ("nothing()", "nothing() returned None and no application: return the Onward"),
        ("shim()", "shim() returned a Celery and no application: return its jobs"),
        ("broken()", "calling broken() failed: KeyError: 'SHOP_URL'"),
        ("later()", "later() is async: name a plain function"),
        ("lazy.jobs", "reading lazy.jobs failed: RuntimeError: no request"),
    ],
)
def test_what_is_no_application_is_told_with_the_fix(onward, module, place, fix):
    name = module(WRONG)

    ran = onward("job", "list", "--app", f"{name}:{place}")

    (line,) = ran.err.splitlines()
    assert (ran.code, ran.out) == (3, "")
    assert line.startswith(f"error: {name}:{place}: ")
    assert fix.format(module=name) in line


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("shop", "write module:attribute, as in shop.jobs:jobs, or module:create()"),
        ("shop:create(1)", "write shop:create(), without arguments"),
        ("shop:create(debug=True)", "write shop:create(), without arguments"),
        ("shop:create()()", "write module:attribute"),
        ("shop:create().jobs", "write module:attribute"),
        ("shop:app..jobs", "write module:attribute"),
        ("shop:__import__('os')", "write shop:__import__(), without arguments"),
        ("shop:a b", "write module:attribute"),
        (":jobs", "write module:attribute"),
        ("shop.py:jobs", "a module is named as in `import`: write shop:jobs"),
        ("src/shop.py:jobs", "a module is named as in `import`: write src.shop:jobs"),
        ("./shop.py:create()", "a module is named as in `import`: write shop:create()"),
    ],
)
@pytest.mark.parametrize("command", [("worker",), ("job", "list", "--app")])
def test_what_names_no_application_is_a_usage_error(onward, command, words, fix):
    ran = onward(*command, words)

    assert (ran.code, ran.out) == (2, "")
    assert fix in ran.err


def test_what_is_no_application_beside_one_is_told_which_the_module_has(onward, shop, url):
    name = shop(url, "from onward import Onward\njobs = Onward({url!r})\nnumber = 7\n").partition(":")[0]

    ran = onward("job", "list", "--app", f"{name}:number")

    assert ran.err.endswith(f"number is an int and no application: {name} has jobs\n")


def test_a_factory_that_fails_shows_where_and_nothing_of_ours(shell, module):
    ran = shell("worker", f"{module(WRONG)}:broken()")

    assert ran.code == 3
    assert "calling broken() failed: KeyError: 'SHOP_URL'" in ran.err
    assert ran.err.count("  File ") == 1
    assert "in broken" in ran.err
