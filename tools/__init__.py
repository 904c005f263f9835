"""Programs for people who work on Onward; none of them is installed with it."""
