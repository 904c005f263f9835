"""What connects an application with tools around it: traces, error reports, log lines, metrics.

Each module has one function, ``install(jobs)``, and needs a package of its own only where it is installed; `prometheus` has
``text(jobs)``.
Called by applications, where they are made; nothing in Onward imports it.
Read `quietly` (why an integration fails no job) and `sends` (one span for each enqueue), then `otel`, `sentry`, `logs` and
`prometheus`.  `django` and `flask` connect whole projects, each a room of its own: Django finds its own through settings,
`flask` has ``init_app(app)``.  `replacing` is the command line that both run.
"""
