"""Processes that others start: a supervisor's child, and a worker's isolated process."""
