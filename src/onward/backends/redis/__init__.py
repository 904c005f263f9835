"""Jobs in a Redis or Valkey server: one script for each verb, many machines.  The extra is ``onward[redis]``.

Only `backends.opening` and tests import it, for `RedisBackend`.  Read `backend` (the verbs), `layout` (the bytes of a
record), `packing` and `scripts/lib/records.lua`, which follow it; then along a job: `scripts/enqueue.lua`,
`scripts/turn_usual.lua` and `scripts/turn.lua` with `turning`, `scripts/reap.lua`.  `scripts` puts a script together
from the parts in `scripts/lib`; `connection` and `server` find a server and refuse one that would lose jobs; `showing`
and `inspection` show jobs; `flows` has the verbs of flows, `scripts/lib/looking.lua` the look at one; `damage` sets
aside records that no script wrote.
"""

from onward.backends.redis.backend import RedisBackend

__all__ = ["RedisBackend"]
