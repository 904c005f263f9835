"""The code in the documentation runs, and prints what the page says it prints."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.mariadb import mariadb_server
from tests.servers.postgres import postgres_server
from tests.servers.redis import redis_server
from tests.servers.servicebus import servicebus, url_of

ROOT = Path(__file__).parents[2]
RUN_PAGE = Path(__file__).with_name("run_page.py")
STANDIN = ROOT / "tests" / "servers" / "servicebus_standin" / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", STANDIN, *sorted((ROOT / "docs").rglob("*.md"))]


def run_page(page, folder, environment=None):
    """Run a page in a process of its own, so that pages cannot disturb each other."""
    bin_first = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, RUN_PAGE, page],
        cwd=folder,
        env={**os.environ, **(environment or {}), "PATH": bin_first, "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture
def server(page):
    """What the driver finds where a URL names neither host nor user; only for the page that needs it."""
    if page.name == "mysql.md":
        with mariadb_server() as server:
            yield {"SHOP_DATABASE": server.url()}
        return
    if page.name == "redis.md":
        with redis_server("redis") as server:
            yield {"REDIS_URL": server.url()}
        return
    if page.name in ("beanstalkd.md", "companion-store.md"):
        with beanstalkd_server() as server:
            yield {"BEANSTALK_URL": server.url()}
        return
    if page.name == "servicebus.md":
        with servicebus() as server:
            yield {"SERVICEBUS_URL": url_of(server)}
        return
    if page == STANDIN:
        yield {"PYTHONPATH": str(ROOT)}
        return
    if page.name != "postgres.md":
        yield {}
        return
    with postgres_server("18") as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        yield {"PGHOST": str(server.folder), "PGUSER": "onward"}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_code_on_the_page_runs(page, server, tmp_path):
    ran = run_page(page, tmp_path, server)

    assert ran.returncode == 0, ran.stdout


GOOD_PAGE = """\
```python title="greeting.py"
def hello(name: str) -> str:
    return f"hello {name}"
```

1. Blocks share a namespace, also inside a list.

    ```python
    print(hello("ada"))
    ```

```text output
hello ...
```

```console
$ python -c 'from greeting import hello; print(hello("bob"))'
hello bob
```

```bash no-run it would erase the disk
rm -rf /
```

```toml
[tool.onward]
```

```sql
SELECT 1;
```
"""


def test_a_good_page_passes(tmp_path):
    (tmp_path / "page.md").write_text(GOOD_PAGE)

    ran = run_page(tmp_path / "page.md", tmp_path)

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```\nprint(1)\n```", "no tag"),
        ("```pyhton\nprint(1)\n```", "unknown tag 'pyhton'"),
        ("```python no-run because\nprint(1)\n```", "unknown tag"),
        ("```bash no-run\nmake\n```", "unknown tag"),
        ("```python\nprint(1)\n", "never closed"),
        ("```python\nprint(1)\n```\n```text output\n2\n```", "Expected"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```python notebook\n1 / 0\n```", "ZeroDivisionError"),
        ("```bash\nfalse\ntrue\n```", "exit code 1"),
        ("```console\n$ echo 1\n2\n```", "Expected"),
        ("```toml\nx =\n```", "page.md:1"),
    ],
)
def test_a_bad_page_fails(tmp_path, block, complaint):
    (tmp_path / "page.md").write_text(block)

    ran = run_page(tmp_path / "page.md", tmp_path)

    assert ran.returncode == 1
    assert complaint in ran.stdout
