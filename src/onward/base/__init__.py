"""What knows nothing of jobs: time, names, ids, processes, forks."""
