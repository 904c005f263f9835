"""Drive a backend and a plain model of the contract with the same commands, and compare all that can be seen.

    def test_my_store_does_what_the_model_does(tmp_path):
        check_against_model(lambda clock: partial(MyBackend.open, fresh_path(tmp_path), clock=clock))

Hypothesis chooses the commands (enqueues, claims and settlements of sessions, requests of people, steps of the clock) and,
when an answer or a job differs, finds the shortest list of commands that shows it.  For stores with `Inspection`; needs
``hypothesis``.

Read `model` with `model_job` (the contract once more, as dictionaries and loops; it shares no code with any store), `asking`
(what people ask of it), `model_lanes` with `model_claims` (who may start), `model_notes`, `model_schedules`, `model_flows`,
`drawing` (which commands there are), `machine`, `lane_rules`, `note_rules`, `schedule_rules`, `flow_rules`, `comparing`,
`explained` (every reason of ``jobs.why`` binds).
"""

from __future__ import annotations

from onward.testing.machine.machine import ContractMachine, InspectedBackend, Tally, check_against_model

__all__ = ["ContractMachine", "InspectedBackend", "Tally", "check_against_model"]
