"""The tubes of queues: the tubes of one namespace have a common prefix."""

from __future__ import annotations

import re

from onward.backends.broker.names import QueueNames

__all__ = ["Tubes", "urgency"]

_FIRST = 100  # Onward's highest priority


class Tubes(QueueNames):
    r"""The tubes of one namespace.  A name is part of a command line, so characters that end a word or a line are escaped.

    >>> Tubes("shop").of("mail"), Tubes("shop").of("a b\r\n")
    ('onward.shop.mail', 'onward.shop.a(20)b(0d)(0a)')
    """

    _longest = 200
    _rule = "beanstalkd: a tube's may have 200 bytes"
    _unsafe = re.compile(rb"[^A-Za-z0-9._-]")
    _written = b"(%02x)"
    _escaped = re.compile(r"\(([0-9a-f]{2})\)")


def urgency(priority: int) -> int:
    """Return the server's priority: 0 comes first.

    >>> urgency(100), urgency(0), urgency(-100)
    (0, 100, 200)
    """
    return max(0, _FIRST - priority)
