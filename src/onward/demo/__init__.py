"""``onward demo``: an example shop, to see jobs run, fail, crash and be rescued.

Called by the command line only.  Read `shop` (the jobs), `story` (what is enqueued when), `summary` (what became of each),
then `command`, which starts a worker and watches it.  `busy_shop` and `busy_story` have more, for the dashboard.
"""
