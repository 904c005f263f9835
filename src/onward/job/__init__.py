"""What a job is: values and pure rules.  Every room above may import them; nothing here talks to a store or starts a thread.

Defining: `definition` (options), `arguments` (parameters), `registry` (handlers by name), `unique_key`, `retry`, `signals`.
Travelling: `envelope` (sealed bytes), `payload_limits`, `secrets` with `secret_places` and `scrubbing` (what is masked).
Running: `lease`, `context` (what a handler knows), `results`, `outcome` (what a run means).
Ending: `states` (the table of moves), `settlement` (what a move does to a job).

Read `states`, `envelope`, `lease`, `outcome`, `settlement` first.
"""
