"""What the file for programs says of each page is prose, and not the first block of code."""

from tools.llms import first_sentence


def test_a_page_that_begins_with_a_command_is_told_by_its_sentence():
    page = "# Worker\n\n`onward worker` runs jobs in processes.  Others do not.\n\n```python\nfrom onward import Onward\n```\n"

    assert first_sentence(page) == "`onward worker` runs jobs in processes."


def test_what_is_no_prose_is_passed_over():
    blocks = [
        "---\nhide: toc\n---",
        "# Title",
        "<!-- generated -->",
        "```python\nrun()\n```",
        "| a | b |",
        "![whole](whole.svg)",
    ]

    assert first_sentence("\n\n".join([*blocks, "It [runs](run.md) jobs: always"])) == "It runs jobs: always"
