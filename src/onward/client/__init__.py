"""The producer: from a decorated function to a stored job, its handle and its record.

Called by the application, by transactions and by the operators; knows nothing of workers.
Read `bound_job` (what ``@jobs.job`` leaves; its type is `job_decorator`, and the handle that enqueueing returns; `calls`),
`letters` (options weighed and sealed; `stamps` add to the meta, `laning` finds the lane), `client` (enqueue) and
`group_commit` (one commit for many threads); then what comes back: `results_of_many`, `record` and `damage` (what of a row
is unreadable); `auditing` (what people did by hand).  `builder` is ``jobs.define(...)``.
Schedules: `schedules` (a specification, sealed, and the jobs made of it), `booking` (store the jobs of the next ticks:
the ticker of a worker calls it).  Flows: `flow_source`, `flow_builder`, `batch`, `flow_handle`, `run_flow` (inside a
handler), `flow_template` (the flow of a schedule).
"""
