"""One run of a job: `attempt` runs it, `settle` tells the store, `report` tells people."""
