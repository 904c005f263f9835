"""Celery's helpers that tasks import: `log`."""
