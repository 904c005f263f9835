"""The driver, which is an extra: without it the error names the extra."""

from __future__ import annotations

from onward.errors import BackendMisconfigured

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise BackendMisconfigured("redis:// needs the driver redis-py: pip install 'onward[redis]'") from error

__all__ = ["NoBackoff", "Retry", "redis"]
