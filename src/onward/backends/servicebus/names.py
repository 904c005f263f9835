"""The Service Bus queues of Onward's queues: those of one namespace have a common prefix."""

from __future__ import annotations

import re

from onward.backends.broker.names import QueueNames

__all__ = ["Names"]


class Names(QueueNames):
    """The Service Bus queues of one namespace.  A name is in lower case there and ends with a letter or a digit.

    >>> Names("shop").of("mail"), Names("shop").of("Mail to-xy"), Names("shop").of("a.")
    ('onward.shop.mail', 'onward.shop.-x4dail-x20to-x2dxy', 'onward.shop.a-x2e')
    >>> Names("shop").queue("onward.shop.-x4dail-x20to-x2dxy"), Names("shop").queue("orders")
    ('Mail to-xy', None)
    """

    _longest = 260
    _rule = "Service Bus: a queue's may have 260 characters"
    _unsafe = re.compile(rb"[^a-z0-9._-]|-(?=x)|[._-]$")  # a dash before x would be read as an escape
    _written = b"-x%02x"
    _escaped = re.compile(r"-x([0-9a-f]{2})")
