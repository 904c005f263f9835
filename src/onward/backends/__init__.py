"""Where envelopes live: one module or package per store, each of them the contract of `onward.backend` and nothing else."""
