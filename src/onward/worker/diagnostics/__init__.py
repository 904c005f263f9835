"""What a running job is doing, asked from outside."""
