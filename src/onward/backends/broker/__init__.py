"""Modules that the backends of brokers share.

Only the packages of brokers (`beanstalk`, `servicebus`) call it.  Read it in this order: `header` (the counters that travel
with a job), `evidence` (settlements of this process), `turns` (the order of a turn), `backend` (the verbs that all of
them share), `names` (queues by the server's names).
"""
