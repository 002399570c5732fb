"""What README.md, CONTRIBUTING.md and docs/ name exists, and pages keep to their length."""

import pathlib
import re

import pytest

from tests.docs import pages
from tf_cudnn_rnn import runtime

ROOT = pages.ROOT
DESIGN = ROOT / "docs" / "design.md"
DECISIONS = ROOT / "docs" / "decisions"
DECISION_PAGES = sorted(p for p in DECISIONS.glob("*.md") if p.name != "README.md")
# The change log names what was.
DOCUMENTS = [pages.ROOT / page for page in pages.PAGES if page != "CHANGELOG.md"]

LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
# Folders of the sources. What is named in others is made by a command, or somebody else's.
FOLDERS = (
    "benchmarks",
    "docker",
    "docs",
    "examples",
    "kernels",
    "network",
    "ops",
    "runtime",
    "tests",
    "tf_cudnn_rnn",
    "third_party",
    "tools",
)
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]*")
# And what is no path: the name of a format.
GENERATED = {"tf_cudnn_rnn/_libraries", "tf_cudnn_rnn/params", "tf_cudnn_rnn/int8"}


def relative(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def num_words(text: str) -> int:
    return sum(any(c.isalnum() for c in word) for word in text.split())


def anchors(path: pathlib.Path) -> set[str]:
    """What links may have behind #, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_links_lead_somewhere(document):
    for target in LINK.findall(FENCED.sub("", document.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        assert path.exists(), f"{relative(document)} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{relative(document)} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_named_paths_exist(document):
    named = CODE.findall(FENCED.sub("", document.read_text()))
    paths = {code for code in named if PATH.fullmatch(code)} - GENERATED
    missing = sorted(path for path in paths if not any(ROOT.glob(path.rstrip("/"))))
    assert not missing, f"{relative(document)} names {missing}"


# Of workflows and Dockerfiles, the commands; of pages, what is marked as code.
MAKES = [
    (ROOT / ".github/workflows", "*.yml", r"(?:command|run): make ([\w-]+)"),
    (ROOT / "docker", "*", r"&& make ([\w-]+)"),
    (ROOT, "*.md", r"`make ([\w-]+)[ `]"),
    (ROOT / "docs", "**/*.md", r"`make ([\w-]+)[ `]"),
]


def test_named_targets_of_make_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for folder, files, pattern in MAKES:
        named = {
            (path.name, target)
            for path in folder.glob(files)
            for target in re.findall(pattern, path.read_text(encoding="utf-8"))
        }
        assert named, folder
        assert not {it for it in named if it[1] not in targets}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_figures_for_users_name_their_machine(document):
    """Decisions tell what was decided then, and may say that something was not written down."""
    if DECISIONS not in document.parents:
        text = " ".join(document.read_text().split())
        assert not re.search(r"not (?:noted|written down|recorded)", text)


def test_readme_begins_with_what_it_is_for():
    """Who has never heard of cuDNN reads first what the library does, and then what cuDNN is."""
    _, purpose, *_ = (ROOT / "README.md").read_text().split("\n\n")
    assert "fast on the CPU" in purpose and "cuDNN" not in purpose
    headings = re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert (
        headings.index("Install") < headings.index("Use") < headings.index("Differences from cuDNN")
    )


# Pages on which a reader installs: each names the file of either command that makes one.
INSTALLS = ["README.md", "docs/start.md", "docs/install.md"]


@pytest.mark.parametrize("page", INSTALLS)
def test_what_make_wheel_makes_is_what_is_installed(page):
    text = (ROOT / page).read_text()
    assert "pip install dist/here/*.whl" in text
    assert "pip install dist/tf_cudnn_rnn-*_x86_64.whl" in text


@pytest.mark.parametrize("page", INSTALLS)
def test_what_is_installed_has_been_made_above(page):
    """Or whoever follows the page from top to bottom finds no file."""
    text = (ROOT / page).read_text()
    for made, installed in (("make wheel", "dist/here/"), ("make wheels", "dist/tf_cudnn_rnn-")):
        first = text.index(f"pip install {installed}")
        assert re.search(rf"{made}\b", text[:first]), installed
    assert text.index("pip install dist/here/") < text.index("pip install dist/tf_cudnn_rnn-")
    for named in re.findall(r"pip install \"\$\(ls (\S+)\)", text):  # with an extra
        assert named == "dist/here/*.whl"


def test_the_runtime_reads_the_variables_that_the_page_says():
    text = (ROOT / "docs" / "environment.md").read_text()
    every = re.findall(r"^\| \[`(TF_CUDNN_\w+)`\]", text, re.MULTILINE)
    library = pathlib.Path(runtime.library_path()).read_bytes()
    assert [name for name in every if name.encode() in library] == every[:2]
    assert "reads the first two and none of the others" in text and len(every) == 5


def test_design_can_be_read_at_one_sitting():
    assert num_words(DESIGN.read_text()) < 2000


def test_there_are_decisions():
    assert len(DECISION_PAGES) > 10


@pytest.mark.parametrize("page", DECISION_PAGES, ids=relative)
def test_a_decision_is_a_short_page_with_all_its_parts(page):
    text = page.read_text()
    assert num_words(text) <= 350
    assert text.startswith("# ")
    for part in ("Question", "Decided", "Ask again"):
        assert len(re.findall(rf"^\*\*{part}\b", text, flags=re.MULTILINE)) == 1, part


def test_the_bounds_of_scratch_memory_have_the_thresholds_of_the_engine():
    header = (ROOT / "kernels" / "engine" / "thresholds.h").read_text()
    text = " ".join((DECISIONS / "scratch-memory.md").read_text().split())
    for name, says, more in (
        ("kChunkRows", "the nearest whole number of times {}", 0),
        ("kMaxTogetherBatch", "(B <= {})", 0),
        ("kMaxLeftRowsInPlace", "from {} rows on", 1),
    ):
        (value,) = re.findall(rf"^inline constexpr \w+ {name} = (\d+);", header, re.MULTILINE)
        assert says.format(int(value) + more) in text, name


@pytest.mark.parametrize("page", DECISION_PAGES, ids=relative)
def test_a_decision_is_in_the_index_once(page):
    index = (DECISIONS / "README.md").read_text()
    assert index.count(f"| [{page.stem}]({page.name}) |") == 1


PICTURE = re.compile(r"^!\[([^\]]+)\]\(([^()\s]+)\)\n\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
DRAWN_BY = re.compile(r"\*Drawn by `(?:make ([\w-]+)|[^`]*?(examples/\w+\.py)[^`]*)`")


def test_every_picture_is_there_and_names_the_command_that_draws_it():
    pictures = set()
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        text = document.read_text()
        found = PICTURE.findall(text)
        assert len(found) == len(re.findall(r"^!\[", text, re.MULTILINE)), relative(document)
        for alternative, target, caption in found:
            path = document.parent / target
            assert path.exists() and len(alternative) > 20, relative(document)
            command = DRAWN_BY.match(caption)
            assert command, f"{relative(document)}: who draws {target}?"
            assert command[1] in targets or (ROOT / (command[2] or "-")).exists()
            pictures.add(path.resolve())
    assert pictures >= set((ROOT / "docs" / "pictures").iterdir())


def test_the_map_of_tests_has_every_folder_and_no_others():
    tests = ROOT / "tests"
    named = set(re.findall(r"`([\w/*]+(?:\.\w+|/)?)`", (tests / "README.md").read_text()))
    missing = [name for name in named if "/" in name and not any(tests.glob(name.rstrip("/")))]
    missing = [name for name in missing if not any(ROOT.glob(name.rstrip("/")))]
    assert not missing
    folders = {path.parent.name for path in tests.glob("*/__init__.py")} | {"engine", "kernels"}
    text = (tests / "README.md").read_text()
    assert [folder for folder in sorted(folders) if f"`{folder}/" not in text] == []
