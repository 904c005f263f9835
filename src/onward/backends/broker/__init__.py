"""What brokers share: the counters that travel with a job, the memory of what was settled, and the order of a turn."""
