"""LAMP's setting on real weights: MiniLM and MPNet learn to judge sentences.

LAMP draws training sentences of any length: the middle half of CoLA has 5 to 9 words, of SST-2 3 to
13 and of Rotten Tomatoes 14 to 27, and a limit of 64 tokens keeps all but a handful.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Task, Training
from tasks.suites.mini.tasks import LAMP, batched

PUBLIC = frozenset({Knowledge.PUBLIC_TEXT, Knowledge.PRIOR, Knowledge.NOISE_SCALE})
GIVEN_LABELS = PUBLIC | {Knowledge.LABELS, Knowledge.LENGTHS}

MODELS = {"minilm": "MiniLM", "mpnet": "MPNet"}
CHECKPOINTS = {
    "minilm": (
        "all-MiniLM-L6-v2 (6 layers, width 384, uncased) as published for sentence similarity; "
        "pooler as published, classification head fresh"
    ),
    "mpnet": (
        "all-mpnet-base-v2 (12 layers, width 768, uncased) as published for sentence similarity; "
        "classification head fresh"
    ),
}
SIZES = (2, 4, 8, 16)
"""LAMP's batches of 2 and 4, and two that DAGER reads besides."""
LOCAL_STEPS = (4, 16)
"""Of a FedAvg client, each on one sentence."""

CLASSIFIER = Task(
    name="open/classifier",
    family="classification",
    summary="",
    corpus="",
    model="package:minilm",
    objective="classification",
    version=3,
    grants=GIVEN_LABELS,
    prior="package:smollm2",
    checkpoint=CHECKPOINTS["minilm"],
    seen="unknown",
    head="fresh",
    head_seed=0,
    labels=2,
    mode="eval",
    precision="float32",
    min_tokens=4,
    max_tokens=64,
    training=Training(1600, 2, 32, 2e-4, test_rows=600),
    papers=(LAMP,),
)
"""What the classification tasks share: a model at the start of fine-tuning. LAMP's two epochs, of
fewer rows and at four times the rate, so that a training takes a minute or two."""


def classifier(name: str, words: str, metric: str, model: str) -> Task:
    """A published encoder learns to judge the sentences of a corpus."""
    return replace(
        CLASSIFIER,
        name=f"open/{name}" if model == "minilm" else f"open/{name}-{model}",
        summary=f"{MODELS[model]} learns to judge {words}.",
        corpus=f"data:{name}",
        model=f"package:{model}",
        checkpoint=CHECKPOINTS[model],
        utility=(metric,),
    )


def finetuned(task: Task) -> Task:
    """The same after two epochs on public sentences, head included."""
    corpus, model = task.corpus.partition(":")[2], task.model.partition(":")[2]
    return replace(
        task,
        name=f"{task.name}-finetuned",
        summary=f"{task.summary.rstrip('.')}, which it was taught on public sentences before.",
        model=f"trained:{model}-{corpus}",
        head="trained",
        head_seed=0,
        checkpoint=f"{task.checkpoint.partition(';')[0]}; fine-tuned on public sentences",
    )


def with_dropout(task: Task) -> Task:
    """The same with dropout left on, as clients train."""
    return replace(
        task,
        name=f"{task.name}-dropout",
        mode="train",
        summary=f"{task.summary.rstrip('.')}, its dropout left on.",
    )


def after_steps(task: Task, steps: int) -> Task:
    """A FedAvg client: so many local steps, and the difference of the weights is shared."""
    return replace(
        task,
        name=f"{task.name}-fedavg{steps}",
        batch_size=steps,
        local_steps=steps,
        learning_rate=5e-5,
        summary=f"{task.summary.rstrip('.')} and shares {steps} local steps at once.",
    )


def settings(task: Task) -> list[Task]:
    """All that is measured of one model on one corpus."""
    return [
        *batched(task, *SIZES),
        *batched(finetuned(task), *SIZES),
        with_dropout(task),
        *(after_steps(task, steps) for steps in LOCAL_STEPS),
    ]


def sampled(task: Task) -> Task:
    """With 32 snapshots, or 12 where attacks take more than ten seconds each."""
    large = task.batch_size > 4 or "mpnet" in task.model
    return replace(task, snapshots=12 if large else 32)


CORPORA = (
    ("cola", "whether a sentence is acceptable", "mcc"),
    ("sst2", "the mood of phrases from film reviews", "accuracy"),
    ("rotten-tomatoes", "film reviews", "accuracy"),
)
FEW = replace(
    classifier(*CORPORA[0], "minilm"),
    name="open/cola-few",
    summary="The first sentences of `open/cola`, for attacks that take more than ten seconds each.",
    snapshots=12,
)
"""What gradient matching is measured on in a few dozen steps."""
WORDPIECE = replace(
    FEW,
    name="open/cola-wordpiece-few",
    summary=(
        "`open/cola-few` with another prior: a small GPT-2 over MiniLM's own vocabulary, trained "
        "on public sentences, in the place of SmolLM2 and decoded text."
    ),
    prior="trained:gpt2-wordpiece",
)
"""Which prior serves LAMP better, and what gradient matching reads with all of its steps."""
DEFENDED = replace(
    classifier(*CORPORA[1], "minilm"),
    name="open/sst2-few",
    summary=(
        "The first phrases of `open/sst2`, which MiniLM learns to judge in a hundred updates, with "
        "the prior of `open/cola-wordpiece-few`: what defenses leave beside what they cost."
    ),
    snapshots=12,
    prior=WORDPIECE.prior,
)
"""The panel of defenses: CoLA takes MiniLM more updates than a defense can be given here."""
CLASSIFICATION = (
    *(
        sampled(task)
        for model in MODELS
        for corpus in CORPORA
        for task in settings(classifier(*corpus, model))
    ),
    FEW,
    WORDPIECE,
    DEFENDED,
)
