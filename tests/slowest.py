"""Where the time of a run went: the twenty files whose tests took longest, after pytest's own list of tests.

A folder grows slow by many tests that are each quick, which a list of tests does not show.
"""

from collections import Counter

MOST = 20


def by_file(reports):
    """Return the seconds of each file with the number of its tests, the longest first."""
    seconds, tests = Counter(), {}
    for report in reports:
        file = report.nodeid.partition("::")[0]
        seconds[file] += report.duration
        tests.setdefault(file, set()).add(report.nodeid)
    return [(spent, len(tests[file]), file) for file, spent in seconds.most_common()]


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("durations"):
        return
    # Set-up and tear-down count: a server that a file starts is part of what the file costs.
    timed = [report for reports in terminalreporter.stats.values() for report in reports if hasattr(report, "duration")]
    files = by_file(timed)[:MOST]
    if len(files) > 1:
        terminalreporter.section(f"slowest {len(files)} files")
        for spent, count, file in files:
            terminalreporter.write_line(f"{spent:8.2f}s  {count:5} tests  {file}")
