"""What a job is: values and pure rules.  Every room above may import them; nothing here knows a store or owns a thread.

Defining: `definition` (options; `other_words` for those of other libraries), `arguments` with `parameters`, `registry`
(handlers by name), `hooks`, `unique_key`, `retry` with `retry_config`, `signals` (what a handler raises).
Travelling: `envelope` (sealed bytes), `membership` (of a flow), `payload_limits`, `secrets` with `secret_places` and
`scrubbing` (what is masked).
Running: `lease`, `context` with `run_parts` (what a handler knows), `steps` (what it has noted), `results`, `outcome`
(what a run means).
Ending: `states` (the table of moves), `settlement` (what a move does to a job), `ran_by` (which worker ran it).

Read `states`, `envelope`, `lease`, `outcome`, `settlement` first.
"""
