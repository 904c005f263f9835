"""The files of the page: what a browser keeps, and what it asks for again."""

import re

import pytest

from onward import Onward
from onward.web import Dashboard, Token
from tests.servers.beanstalkd import beanstalkd_server
from tests.web.asking import PEOPLE, Client

NO_LOOK = b'<meta name="onward-look" content="none">'


def page(ask):
    return ask.send("GET", "", accept="text/html").body


def test_the_page_names_its_files_so_that_a_browser_keeps_them(ask):
    files = re.findall(rb'(?:src|href)="(static/[^"]+)"', page(ask))

    assert len(files) == 3
    for name, _, query in (file.decode().partition("?") for file in files):
        answer = ask.send("GET", name, query=query)
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
        assert ask.send("GET", name, query=query, if_none_match=answer.headers["ETag"]).status == 304


@pytest.mark.parametrize("query", ["", "v=0123456789abcdef01"])
def test_a_file_is_served_without_its_digest_or_with_that_of_another_release_and_not_kept(ask, query):
    """While a new release is rolled out, the page may come from one process and its files from another."""
    answer = ask.send("GET", "static/app.js", query=query)

    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-cache")


def test_the_page_of_a_store_that_can_be_looked_at_asks_for_a_look_at_once(ask):
    assert NO_LOOK not in page(ask)


def test_the_page_of_a_store_that_cannot_does_not_ask_for_one():
    with beanstalkd_server() as server, Onward(server.url()) as jobs:
        assert NO_LOOK in page(Client(Dashboard(jobs, auth=Token(PEOPLE))))
