"""Is it worth sending the mechanical steps of a run to a small model? Cost per resolved task decides, not cost per run.

python examples/cost_worked_example.py      needs no run, no key and no network
"""

from __future__ import annotations

from ethogram.questions.cost.question import assumed_cost

RUN = "steps=20,input=12000,output=700,cached=0.6"
PRICES = {"frontier": {"fresh": 3.00, "output": 15.00}, "small": {"fresh": 0.15, "output": 0.60}}


def main() -> None:
    """All steps on the large model, then fourteen of twenty on the small one, at two resolutions."""
    report = assumed_cost(
        RUN,
        prices=PRICES,
        resolution=0.65,
        volume=10_000,
        routes=("14=small",),
        routed_resolution=(0.60, 0.20),
    )
    routing = report.routing
    assert report.monthly is not None
    assert routing is not None
    print(
        f"all frontier: ${report.per_run.value:.2f} a run, ${report.per_resolved.value:.2f} per resolved task", end=""
    )
    print(f" at 65 %, ${report.monthly.cost.value:,.0f} a month")
    for at in routing.at:
        words = "pays" if at.pays else "does not pay"
        print(f"14 of 20 routed: ${routing.per_run.value:.2f} a run, ${at.per_resolved.value:.2f}", end="")
        print(f" per resolved task at {at.resolution:.0%}: {words}")
    print(f"break-even: routed runs must resolve at least {routing.break_even.value:.1%}")


if __name__ == "__main__":
    main()
