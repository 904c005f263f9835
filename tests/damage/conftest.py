"""A worker under a supervisor, on a store in which one cell holds what no worker would have written."""

from tests.supervisor.conftest import folder, open_shop, own_settings, scale, served, shop, start, store  # noqa: F401
