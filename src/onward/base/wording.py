"""Articles and plurals for messages, and what stands where a person gave no words."""

from __future__ import annotations

__all__ = ["BY_REQUEST", "a", "counted"]

BY_REQUEST = "cancelled by request"  # the reason of a cancellation for which none is given


def a(noun: str) -> str:
    """Return a noun with its article.

    >>> a("tuple"), a("async_generator"), a("Onward")
    ('a tuple', 'an async_generator', 'an Onward')
    """
    return f"{'an' if noun[:1].lower() in {'a', 'e', 'i', 'o', 'u'} else 'a'} {noun}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "job"), counted(2, "job"), counted(1_000, "process", "processes"), counted(0, "time")
    ('1 job', '2 jobs', '1,000 processes', '0 times')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
