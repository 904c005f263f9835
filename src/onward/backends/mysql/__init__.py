"""Jobs in a MySQL or MariaDB database: many machines, durable before an enqueue returns.  The extra is ``onward[mysql]``."""

from onward.backends.mysql.backend import MySQLBackend

__all__ = ["MySQLBackend"]
