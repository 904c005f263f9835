"""The handlers of the routes, one file for each page: from a request that has passed every check to an answer.

Called by `onward.web.handlers`.  Here: `session` (who asks), `overview`, `queues`, `jobs` and `job`, `bulk`, `dead`,
`workers`, `schedules`, `flows`, `limits`.  No order.
"""
