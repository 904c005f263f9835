"""What lets programs that were written for another system run on Onward.

`celery` has Celery's words: its decorators, calls, results, schedules and canvas.  Called by programs; nothing in Onward
imports it but `onward schedule import celery`.
"""
