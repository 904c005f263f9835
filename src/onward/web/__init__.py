"""The dashboard: a page and an API over what `onward.operate` knows, mounted in one line, closed by default.

It is a face and decides nothing about jobs.  Read `dashboard` (what a program makes), `routes` (the one table) with
`questions`, `answers`, `job_answers`, `page_answers` and `act_answers` (its types), `request`, `guard`, `auth` and
`failures` (who may ask what, and how it is refused), `asgi`, `wsgi` and `django` (the three faces), `handlers` (which
function answers a route: those of `pages/`, which get what `asking` says), `views` and `rendering` (rows and bytes),
`pictures` (one look for all), `tickets` (signed previews), `static_files`, `openapi`.  Only `onward.cli` imports it.
"""

from onward.web.auth import DjangoStaff, ProxyHeader, Token, User
from onward.web.dashboard import Dashboard
from onward.web.request import WebRequest

__all__ = ["Dashboard", "DjangoStaff", "ProxyHeader", "Token", "User", "WebRequest"]
