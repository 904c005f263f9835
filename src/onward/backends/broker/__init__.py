"""Modules that the backends of brokers share.

Only the packages of brokers (`beanstalk`, `servicebus`) call it.  Read it in this order: `header` (the counters that travel
with a job), `evidence` (settlements of this process), `backend` (the verbs that all of them share, and the order of a turn),
`names` (queues by the server's names).
"""
