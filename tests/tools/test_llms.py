"""What the file for programs says of each page is prose, and not the first block of code."""

from tools.llms import first_sentence

CODE = "```python\nfrom onward import Onward\n```"
NO_PROSE = ["---\nhide: toc\n---", "# Title", "<!-- generated -->", CODE, "| a | b |", "![whole](whole.svg)"]


def test_a_page_that_begins_with_a_command_is_told_by_its_sentence():
    page = f"# Worker\n\n`onward worker` runs jobs in processes.  Others do not.\n\n{CODE}\n"

    assert first_sentence(page) == "`onward worker` runs jobs in processes."


def test_what_is_no_prose_is_passed_over():
    assert first_sentence("\n\n".join([*NO_PROSE, "It [runs](run.md) jobs: always"])) == "It runs jobs: always"
