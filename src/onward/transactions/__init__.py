"""Jobs in transactions: enqueued in the caller's own, and completed in the one that a handler works in."""
