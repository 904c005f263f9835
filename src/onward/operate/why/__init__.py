"""Why a job is where it is: one reason, the one that binds, and what to type.

Called by ``jobs.why`` and ``onward why``.  Read `reason` (what is answered), `case` (what is known of a job), `rules` (which
rules there are, and their order), then the rules themselves: `finished`, `running`, `waiting`, `gates`, `due`, with `acts`
(who did what by hand).  They are pure: `explaining` alone asks the store.
"""
