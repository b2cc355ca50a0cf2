"""The `open` suite: real corpora and real pretrained weights, without a model hub.

`make open` installs the weights; `python -m tasks.models.train_open` makes those that are
fine-tuned from them; the corpora are files in the folder that LEAKBOARD_DATA names.
"""

from benchmark.suites import Footprint, Suite
from tasks.suites.open.classification import CLASSIFICATION
from tasks.suites.open.federated import FEDERATED_TASKS
from tasks.suites.open.language import LANGUAGE_MODELING
from tasks.suites.open.plan import PANELS, PLAN, TOPICS, UTILITY
from tasks.suites.open.translation import TRANSLATION

SUITE = Suite(
    name="open",
    summary="Real corpora and published weights that install as packages: CPU hours, not a GPU.",
    tasks=(*CLASSIFICATION, *LANGUAGE_MODELING, *TRANSLATION, *FEDERATED_TASKS),
    plan=PLAN,
    utility=UTILITY,
    panels=PANELS,
    topics=TOPICS,
    footprints={"package:mpnet": Footprint(110), "package:smollm2": Footprint(135)},
)
