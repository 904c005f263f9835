"""Sweeps: many leases at once, and none that keeps the others."""

import pytest

from tests.backends.sweeping import Sweeps


class TestSweeps(Sweeps):
    @pytest.fixture
    def refuse(self, sql, relent):
        def refuse_it(job_id):
            sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$")
            sql(
                f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs FOR EACH ROW WHEN (old.id = '{job_id}') "
                "EXECUTE FUNCTION refuse()"
            )

        yield refuse_it
        relent()

    @pytest.fixture
    def relent(self, sql):
        return lambda: sql("DROP FUNCTION IF EXISTS refuse CASCADE")
