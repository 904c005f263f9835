import os
import subprocess

from onward.base.process_end import has_ended, kill_group
from tests.supervisor.fleets import eventually


def test_a_group_can_be_killed_as_long_as_its_leader_was_not_waited_for():
    read, write = os.pipe()
    with subprocess.Popen(["/bin/sh", "-c", "sleep 300 & exit 3"], pass_fds=(write,), process_group=0) as leader:
        os.close(write)  # ours: now only the group holds it
        eventually(lambda: has_ended(leader.pid))
        kill_group(leader.pid)

        assert os.read(read, 1) == b""  # its last holder is gone
        assert leader.wait() == 3
    os.close(read)
