"""Which test a process of the run takes next: from one queue, which is taken from both of its ends.

In front are the tests that wait for processes, leases and clocks and leave the processors to others; at the back are those
that compute, with the longest behind all others.  Every second process begins in front and the others at the back, so that
both kinds run at the same time: no processor is idle while tests wait, and no more than half of the processes start programs
at once.  They meet at short tests, so that no process is long at work when the others have ended.

Tests that share what the whole run has once, such as the browser, are taken together by one process.  So are those of a
file that makes something costly for all of its tests, such as tables with many rows, which each process would make again.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling

FRONT = (  # those that wait, the longest first
    "tests/proof/test_kills.py",
    "tests/supervisor/",
    "tests/web/browser/",
    "tests/proof/",
    "tests/tools/test_standstill.py",
    "tests/damage/",
    "tests/cli/test_demo.py",
    "tests/worker/test_soak.py",
)
TOGETHER = ("tests/web/browser/",)  # one browser in the whole run: it takes as much memory as all else
BY_FILE = (  # what a file makes takes seconds, its tests together no minute
    "tests/application/test_check_deploy.py",
    "tests/backends/mysql/test_flow_queries.py",
    "tests/backends/mysql/test_queries.py",
    "tests/backends/postgres/test_queries.py",
    "tests/backends/sqlite/test_queries.py",
    "tests/base/test_wording.py",
    "tests/cli/test_why.py",
    "tests/deploy/",
    "tests/packaging/",
    "tests/tools/test_processes_picture.py",
    "tests/web/test_openapi.py",
    "tests/web/test_wheel.py",
)
BACK = ("tests/typing/", "tests/model/")  # those that compute for long, the longest last


class FromBothEnds(LoadScopeScheduling):
    """Hand out tests one by one.  Of what a process has been given, only what it has not run yet is remembered."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        self._index = {}  # of each test in the collection: a search in a list of 20,000 takes longer than many a test

    def _split_scope(self, nodeid):
        """Every test is a unit of its own, save for those that are taken together."""
        if nodeid.startswith(BY_FILE):
            return nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)

    def schedule(self):
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                return
            self.collection = list(next(iter(self.registered_collections.values())))
            self._index = {test: at for at, test in enumerate(self.collection)}
            for test in sorted(self.collection, key=_place):
                self.workqueue.setdefault(self._split_scope(test), {})[test] = False
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node):
        """Give a process work: it runs a test only when it knows the next one, or that there is none."""
        if node.shutting_down:
            return
        while self.workqueue and len(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def _assign_work_unit(self, node):
        begins_at_the_back = int(node.gateway.id.removeprefix("gw")) % 2 == 1
        _, unit = self.workqueue.popitem(last=begins_at_the_back)
        self.assigned_work[node].update((test, {test: False}) for test in unit)
        node.send_runtest_some([self._index[test] for test in unit])

    def mark_test_complete(self, node, item_index, duration=0):
        del self.assigned_work[node][self.collection[item_index]]
        self._reschedule(node)

    def remove_node(self, node):
        """Give the tests of a process that died to the others, save for the one that it died in."""
        left = self.assigned_work.pop(node)
        crashed = next(iter(left), None)
        left.pop(crashed, None)
        for test in left:
            self.workqueue.setdefault(self._split_scope(test), {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return crashed


def _place(test):
    for place, files in enumerate(FRONT):
        if test.startswith(files):
            return place - len(FRONT)
    return next((place for place, files in enumerate(BACK, start=1) if test.startswith(files)), 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return FromBothEnds(config, log) if config.getoption("dist") == "load" else None
