"""What is wrong with a fleet and its store, and what to type: a list of checks, each with its fix.

Called by ``jobs.health``, ``onward health``, ``onward top`` and the process that samples.  Read `findings` (what is known),
`verdict` (how a check is made of problems), `rules` (which checks there are), then the rules themselves: `queues`, `jobs`,
`workers`, `schedules`.  They are pure: `asking` alone asks the store.  `changes` compares two lists, and `telling`
tells subscribers.
"""
