"""Jobs in Azure Service Bus: a broker, not a database.  What it cannot do is declared, not imitated."""

from onward.backends.servicebus.backend import ServiceBusBackend

__all__ = ["ServiceBusBackend"]
