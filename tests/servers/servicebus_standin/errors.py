"""What the stand-in refuses, and with which words: the condition of AMQP and the status of a management answer."""

from __future__ import annotations

__all__ = [
    "EntityNotFound",
    "LockLost",
    "MessageNotFound",
    "MessageTooLarge",
    "NotSupported",
    "Refusal",
    "StandinError",
    "Unauthorized",
]


class StandinError(Exception):
    """The stand-in cannot do what a test asked of it; the message says what to change."""


class Refusal(Exception):
    """A client's command is answered with an error."""

    condition = "amqp:internal-error"
    status = 500

    def __init__(self, description: str, *, condition: str | None = None) -> None:
        super().__init__(description)
        self.description = description
        if condition is not None:
            self.condition = condition


class LockLost(Refusal):
    """The lock has expired, or the message was settled before."""

    condition = "com.microsoft:message-lock-lost"
    status = 410


class MessageNotFound(Refusal):
    condition = "com.microsoft:message-not-found"
    status = 404


class EntityNotFound(Refusal):
    condition = "amqp:not-found"
    status = 404


class MessageTooLarge(Refusal):
    condition = "amqp:link:message-size-exceeded"
    status = 400


class Unauthorized(Refusal):
    condition = "amqp:unauthorized-access"
    status = 401


class NotSupported(Refusal):
    condition = "amqp:not-implemented"
    status = 501
