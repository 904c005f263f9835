"""Jobs in Azure Service Bus: a broker, not a database.  The backend declares what it cannot do, and imitates nothing.

Only `backends/opening` makes a backend.  Read it in this order: `backend` (the verbs), `session` (claiming, and what one
owner holds), `received` (one job that is held), `settling`, `channel` (one queue), `bus` and `links` (the connections),
`message` and `names` (what is written), `dead_letters`, `settings`, `health`, `url`.
"""

from onward.backends.servicebus.backend import ServiceBusBackend

__all__ = ["ServiceBusBackend"]
