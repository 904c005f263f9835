"""Jobs in a Redis or Valkey server: one script per verb.  Needs the extra ``onward[redis]``."""

from onward.backends.redis.backend import RedisBackend

__all__ = ["RedisBackend"]
