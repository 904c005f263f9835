"""How hard the machine tries, and what it reports."""

from hypothesis import HealthCheck, Phase, settings

from onward.testing.machine import check_against_model

FAST = {"max_examples": 600, "stateful_step_count": 40}
PROOF = {"max_examples": 20_000, "stateful_step_count": 60}


def compare_with_model(name, new_store, report):
    effort = PROOF if settings.get_current_profile_name() == "proof" else FAST
    fired = check_against_model(
        new_store,
        settings(
            **effort,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    report(f"{name} against the model, {effort['max_examples']:,} stories: {tell(fired)}")


def tell(fired):
    return ", ".join(f"{name} {count:,}" for name, count in sorted(fired.items()))
