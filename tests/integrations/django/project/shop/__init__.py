"""A shop on Django, for the tests of its tasks."""
