"""`make bench`: Onward beside the raw engine and beside its peers, in one run, as ratios."""
