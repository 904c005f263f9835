"""Pure rules of what may start when: no store, no thread, no clock of its own.

Called by `client`, `attempt`, `operate` and `cli`.  Read `cron` (which instants an expression names), `zones` (what a change
of clocks does to them), then `schedule` (what a schedule is, and which of its ticks to book).
"""
