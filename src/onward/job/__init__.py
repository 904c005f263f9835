"""What a job is: values and pure rules, and nothing that talks to a store."""
