"""Whether a build can run every job that waits.  Called as ``jobs.check_deploy`` and by the command line; changes nothing.

Read `gate` (what is asked of the store, job by job), `problem` (one kind of trouble, and its words), `gathering` (jobs with
the same trouble make one problem), `signatures` (two builds compared without a store).
"""
