"""How large the proofs are when they run as tests; `make proof` runs the same code at full scale."""

import os

import pytest


@pytest.fixture(scope="session")
def scale():
    """The fraction of the full scale: 1 is a million claims."""
    return float(os.environ.get("ONWARD_PROOF_SCALE", "0.02"))
