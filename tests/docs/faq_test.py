"""The answers of docs/guide/faq.md: their code runs, and what it asserts holds."""

import re

import pytest

from tests.docs import pages

PAGE = "docs/guide/faq.md"
FAQ = (pages.ROOT / PAGE).read_text(encoding="utf-8")
QUESTIONS = [
    (match[1], FAQ[: match.start()].count("\n"))
    for match in re.finditer(r"^## (.*)$", FAQ, flags=re.MULTILINE)
]
# What people keep asking, each by words that its question has.
TOPICS = [
    "shape of each tensor",
    "stack of layers built in",
    "training loop",
    "carry h and c from batch to batch",
    "y or h",
    "two biases",
    "losses differ between two implementations",
    "pad or truncate",
    "sort sequences",
    "negative",
    "time_major=False",
    "dropout do nothing",
    "deterministic",
    "weights to a GPU, and back",
    "XLA",
    "freeze or regularise",
    "reserve_space",
]


def code_of(question: str | None) -> list[tuple[int, str]]:
    """The blocks of an answer, or those before all questions, with the line before each."""
    found = []
    for line, code in pages.blocks(PAGE, "python"):
        above = [text for text, at in QUESTIONS if at < line]
        if (above[-1] if above else None) == question:
            found.append((line, code))
    return found


@pytest.fixture(scope="module")
def prepared():
    namespace = {}
    for line, code in code_of(None):
        pages.run(PAGE, line, code, namespace)
    return namespace


@pytest.mark.parametrize("question", [text for text, _ in QUESTIONS])
def test_code_of(question, prepared):
    blocks = code_of(question)
    assert blocks
    namespace = dict(prepared)
    for line, code in blocks:
        pages.run(PAGE, line, code, namespace)


def test_every_topic_has_its_question():
    for topic in TOPICS:
        assert sum(topic in text for text, _ in QUESTIONS) == 1, topic
    assert len(QUESTIONS) == len(TOPICS)


def _thresholds() -> dict[str, float]:
    """The constants of kernels/engine/thresholds.h."""
    text = (pages.ROOT / "kernels" / "engine" / "thresholds.h").read_text()
    found = {}
    for name, value in re.findall(r"^inline constexpr \w+ (k\w+) = ([^;]+);", text, re.MULTILINE):
        found[name] = eval(value.replace("int64_t{1}", "1"), {}, found)
    return found


def test_where_bits_change_it_says_what_the_engine_does():
    k = _thresholds()
    text = " ".join(FAQ.split())
    for says in (
        f"calls of at most {k['kMaxSmallCallRows']} rows",
        f"of these, calls of at most {k['kMaxStepsInPlace']} time steps from longer ones, unless "
        f"the recurrent matrix has more than {k['kMaxPackedBytes'] // k['kMegabyte']} MB; "
        f"if it has at most {k['kMaxQuicklyPackedBytes'] >> 10} KB, calls of one time step",
        "(outputs of drop-in layers change so up to "
        f"{k['kMaxPackedKerasBytes'] // k['kMegabyte']} MB",
        f"calls of {k['kMinPartsRows']} rows and more from smaller ones.",
    ):
        assert says in text, says
