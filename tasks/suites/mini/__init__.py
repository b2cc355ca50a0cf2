"""The `mini` suite: every family, everything embedded, minutes on two cores."""

from benchmark.suites import Suite
from tasks.suites.mini.plan import PANELS, PLAN, UTILITY
from tasks.suites.mini.tasks import TASKS

SUITE = Suite(
    name="mini",
    summary="Every task family on text and models made for this project: nothing to download.",
    tasks=TASKS,
    plan=PLAN,
    utility=UTILITY,
    panels=PANELS,
)
