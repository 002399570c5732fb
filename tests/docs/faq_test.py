"""The answers of docs/guide/faq.md: their code runs, and what it asserts holds."""

import pathlib
import re

import pytest

FAQ = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "faq.md"
PREPARATION, *SECTIONS = re.split(r"^## ", FAQ.read_text(), flags=re.MULTILINE)
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


def question(section: str) -> str:
    return section.splitlines()[0]


def run_code(text: str, namespace: dict) -> None:
    for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        # Failures then show the line of the document.
        lines_before = FAQ.read_text()[: FAQ.read_text().index(match.group(1))].count("\n")
        exec(compile("\n" * lines_before + match.group(1), str(FAQ), "exec"), namespace)


@pytest.fixture(scope="module")
def prepared():
    namespace = {}
    run_code(PREPARATION, namespace)
    return namespace


@pytest.mark.parametrize("section", SECTIONS, ids=question)
def test_code_of(section, prepared):
    assert "```python" in section
    run_code(section, dict(prepared))


def test_every_topic_has_its_question():
    questions = [question(section) for section in SECTIONS]
    for topic in TOPICS:
        assert sum(topic in text for text in questions) == 1, topic
    assert len(questions) == len(TOPICS)


def _thresholds() -> dict[str, float]:
    """The constants of kernels/engine/thresholds.h."""
    text = (FAQ.parents[2] / "kernels" / "engine" / "thresholds.h").read_text()
    found = {}
    for name, value in re.findall(r"^inline constexpr \w+ (k\w+) = ([^;]+);", text, re.MULTILINE):
        found[name] = eval(value.replace("int64_t{1}", "1"), {}, found)
    return found


def test_where_bits_change_it_says_what_the_engine_does():
    k = _thresholds()
    text = " ".join(FAQ.read_text().split())
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
