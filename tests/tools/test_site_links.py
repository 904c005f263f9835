"""Links of the site that leave it lead into the repository, or nowhere."""

import pytest

from tools.site_links import main

HOME = "https://forge.example/team/onward"


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "site" / "guide" / "index.html"
    file.parent.mkdir(parents=True)
    (tmp_path / "site" / "worker").mkdir()
    file.write_text(
        '<a href="../worker/#stop">here</a> <a class="x" href="../../deploy/fly/fly.toml">file</a> '
        '<a href="../../deploy/">folder</a> <a href="../../src/onward/app.py#L7">line</a> <a href="https://x.example/../y">far</a>'
    )
    return file


def test_they_lead_to_the_address_that_the_build_is_told(page, monkeypatch):
    monkeypatch.setenv("PROJECT_URL", f"{HOME}/")

    main([str(page.parents[1])])

    assert page.read_text() == (
        f'<a href="../worker/#stop">here</a> <a class="x" href="{HOME}/blob/main/deploy/fly/fly.toml">file</a> '
        f'<a href="{HOME}/tree/main/deploy">folder</a> <a href="{HOME}/blob/main/src/onward/app.py#L7">line</a> '
        '<a href="https://x.example/../y">far</a>'
    )


def test_without_an_address_they_keep_their_words(page, monkeypatch):
    monkeypatch.delenv("PROJECT_URL", raising=False)

    main([str(page.parents[1])])

    assert page.read_text() == (
        '<a href="../worker/#stop">here</a> <a class="x">file</a> <a>folder</a> <a>line</a> '
        '<a href="https://x.example/../y">far</a>'
    )
