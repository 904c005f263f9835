"""The driver, which is an extra: without it the error names the extra."""

from __future__ import annotations

from onward.errors import BackendMisconfigured

try:
    import psycopg
    from psycopg.types.numeric import Int8BinaryDumper
except ImportError as error:
    raise BackendMisconfigured("postgresql:// needs the driver psycopg: pip install 'onward[postgres]'") from error

__all__ = ["Int8BinaryDumper", "psycopg"]
