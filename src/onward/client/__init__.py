"""The producer: from a decorated function to a stored job and its handle."""
