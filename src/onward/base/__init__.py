"""Modules that know nothing of jobs.  Every room may call them; they import only `onward.errors`.

Here: time (`clock`, `durations`, `backoff`), text (`names`, `ids`, `wording`, `failure`, `fingerprint`, `credentials`,
`logs`, `outage`), processes (`ipc`, `packets`, `process_end`, `forks`, `ownership`),
`lazy` (modules imported at their first use), `package_files` (where the files of a package lie),
`config_file` (where it is, and whether to trust it) and `interruption`, which raises an exception in a handler's thread and
never in Onward's own code.
No order: open a module when another one calls it; `interruption` and `forks` are worth reading first.
"""
