"""The driver, which is an extra: without it the error names the extra."""

from __future__ import annotations

from onward.errors import BackendMisconfigured

try:
    import pymysql
    from pymysql.constants import CLIENT, SERVER_STATUS
except ImportError as error:
    raise BackendMisconfigured("mysql:// needs the driver PyMySQL: pip install 'onward[mysql]'") from error

__all__ = ["CLIENT", "SERVER_STATUS", "pymysql"]
