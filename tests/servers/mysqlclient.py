"""The driver mysqlclient, which comes as a source that needs a compiler; Debian has it built for its own Python."""

from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_config_var

from tests.servers.programs import apt_install, unavailable

__all__ = ["importable_from"]

_DEBIAN = Path("/usr/lib/python3/dist-packages/MySQLdb")


def importable_from(folder):
    """A folder for the search path that has the driver in it, and nothing else; None if it is installed."""
    if find_spec("MySQLdb") is not None:
        return None
    if not _DEBIAN.exists():
        apt_install("python3-mysqldb")
    if not _DEBIAN.exists():
        unavailable("mysqlclient: neither installed nor through apt-get (python3-mysqldb)")
    if not (_DEBIAN / f"_mysql{get_config_var('EXT_SUFFIX')}").exists():
        unavailable("mysqlclient for this Python: Debian has it built for its own alone")
    (folder / "MySQLdb").symlink_to(_DEBIAN)
    return folder
