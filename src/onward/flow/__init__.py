"""Pure rules of what may start when: no store, no thread, no clock of its own.

Called by `client`, `attempt`, `backends`, `operate` and `cli`.  Read `cron` (which instants an expression names), `zones`
(what a change of clocks does to them), `schedule` (what a schedule is, and which of its ticks to book); `limits` and
`breaker` (what users write), `lanes` (the names of lines inside a queue), `tokens` (rates), `room` (how much a limit has
left), then `walk` (which lanes a claim takes jobs from, and in which order; `lane_view` is what it asks a
store); `graph` (which nodes of a flow open), `layout` (where they are drawn).
"""
