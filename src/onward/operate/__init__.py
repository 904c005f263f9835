"""What people look at and steer: inspecting, dead letters, pruning, transfer between stores."""
