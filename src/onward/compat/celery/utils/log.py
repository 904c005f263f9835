"""Loggers of tasks: ordinary ones.  `onward.integrations.logs` puts the job on each of their records."""

from __future__ import annotations

import logging

__all__ = ["get_task_logger"]


def get_task_logger(name: str) -> logging.Logger:
    """Return the logger of this name."""
    return logging.getLogger(name)
