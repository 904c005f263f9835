"""How hard the machine tries, and what it reports."""

from hypothesis import HealthCheck, Phase, settings

from onward.testing.machine import check_against_model

FAST = {"max_examples": 220, "stateful_step_count": 40}
PROOF = {"max_examples": 20_000, "stateful_step_count": 60}


def compare_with_model(name, new_store, report, *, fast=FAST, proof=PROOF):
    effort = proof if settings.get_current_profile_name() == "proof" else fast
    tally = check_against_model(
        new_store,
        settings(
            **effort,
            deadline=None,
            report_multiple_bugs=False,  # one story at a time, and no time spent on the others
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    report(
        f"{name} against the model, {effort['max_examples']:,} stories, {tally.commands.total():,} commands: "
        f"{tell(tally.commands)}"
    )
    report(f"{name} against the model, what came of them: {tell(tally.outcomes)}")


def tell(counter):
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counter.items()))
