"""Rules about the sources that no compiler checks."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "kernels" / "engine"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(folder: pathlib.Path) -> list[pathlib.Path]:
    found = sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cc", ".inc"))
    assert found, f"no sources in {folder}"
    return found


def includes(path: pathlib.Path) -> list[tuple[str, str]]:
    """The (delimiter, name) of each include."""
    return INCLUDE.findall(path.read_text())


def relative(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_for_one_isa(path: pathlib.Path) -> bool:
    return path.match("kernels_*.cc") or path.match("*-inl.h") or path.match("vec_*.h")


@pytest.mark.parametrize("path", sources(ENGINE), ids=relative)
def test_engine_includes_itself_and_the_standard_library_alone(path):
    for delimiter, name in includes(path):
        if delimiter == '"':
            assert name.startswith(("kernels/engine/", "network/")), (
                f"{relative(path)} includes {name}"
            )
        else:
            # The standard library's headers have neither folder nor ending, C's end in .h.
            assert re.fullmatch(r"[a-z0-9_]+(\.h)?", name), f"{relative(path)} includes {name}"


# Each room of the sources, and what it may include: arrows run one way.
_PLAN = (
    "network",
    "kernels/engine/simd",
    "kernels/engine/threads",
    "kernels/engine/elements",
    "kernels/engine/thresholds.h",
)
_WEIGHTS = (*_PLAN, "kernels/engine/plan")
_PRODUCTS = (*_WEIGHTS, "kernels/engine/weights")
# What adapters know: the engine's face, and the threads that work for it.
_FACE = (
    "network",
    "kernels/memory",
    "kernels/engine/engine.h",
    "kernels/engine/observer.h",
    "kernels/engine/plan/plan.h",
    "kernels/engine/threads",
    "kernels/engine/simd/instruction_set.h",
    "kernels/engine/weights/keras_weights.h",
)
ARROWS = {
    "network": (),
    "ops": ("network",),
    "kernels/memory": (),
    "kernels/engine/simd": ("network",),
    "kernels/engine/threads": ("kernels/engine/thresholds.h",),
    "kernels/engine/elements": (
        "network",
        "kernels/engine/simd",
        "kernels/engine/thresholds.h",
    ),
    "kernels/engine/plan": _PLAN,
    "kernels/engine/weights": _WEIGHTS,
    "kernels/engine/products": _PRODUCTS,
    "kernels/engine/passes": (
        *_PRODUCTS,
        "kernels/engine/products",
        "kernels/engine/engine.h",
        "kernels/engine/observer.h",
    ),
    # The engine's face, and what all of its rooms may know.
    "kernels/engine": (
        "network",
        "kernels/engine/plan/plan.h",
        "kernels/engine/threads/executor.h",
    ),
    "kernels": ("ops", *_FACE),
    # Which has no TensorFlow either.
    "runtime": _FACE,
}


@pytest.mark.parametrize(
    "room, path",
    [
        pytest.param(room, path, id=relative(path))
        for room in ARROWS
        for path in sources(ROOT / room)
        if path.parent == ROOT / room
    ],
)
def test_arrows_between_rooms_run_one_way(room, path):
    ours = ("network/", "ops/", "kernels/", "runtime/")
    for _, name in includes(path):
        if name.startswith(ours):
            allowed = {room, *ARROWS[room]}
            assert {name, name.rpartition("/")[0]} & allowed, f"{relative(path)} includes {name}"


PACKAGE = ROOT / "tf_cudnn_rnn"
# Each room of the Python package, and the other rooms that it may import. The first part of a
# module's path within the package that is a key is its room.
PYTHON_ARROWS = {
    "_types": (),
    "_op_results": ("_types",),
    "_layout": (),
    "_program": (),
    "_formats": ("_layout",),
    "_files": ("_formats", "_layout", "_library"),
    "weights": ("_files", "_formats", "_layout"),
    "runtime": ("_elf", "_files", "_formats", "_layout"),
    "_elf": (),
    "_machine": ("_elf", "_library"),
    "_library": ("_elf",),
    "raw_ops": ("_library", "_layout", "_op_results"),
    "keras": ("_library", "_layout", "_formats", "weights", "raw_ops", "runtime"),
    "_cli": (
        *("", "_program", "_library", "_layout", "_formats", "weights", "raw_ops", "keras"),
        *("_files", "_gradients", "_machine", "runtime"),
    ),
    "__main__": ("_cli",),
    "__init__": (
        *("_program", "_library", "_gradients", "params", "raw_ops", "weights"),
        *("keras", "runtime"),
    ),
    "params": ("_layout", "raw_ops"),
    "_gradients": ("_second_order", "raw_ops"),
    "_second_order": ("_layout", "_library", "raw_ops"),
}
# What is imported without asking whether it is installed.
ALWAYS = {"numpy", *sys.stdlib_module_names}


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imports(path: pathlib.Path, only_top_level: bool) -> list[str]:
    """The modules that a file imports; those of the package by name, `tf_cudnn_rnn._library`."""
    tree = ast.parse(path.read_text())
    found = []
    for node in tree.body if only_top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += names if node.module == PACKAGE.name else [node.module]
    return found


def test_every_room_of_the_package_has_its_arrows():
    found = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    assert {name.removesuffix(".py") for name in found} == set(PYTHON_ARROWS)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=relative)
def test_arrows_between_rooms_of_the_package_run_one_way(path):
    room = room_of(path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."))
    for name in imports(path, only_top_level=False):
        package, _, rest = name.partition(".")
        assert package not in ("benchmarks", "tests", "examples"), f"{relative(path)}: {name}"
        if package == PACKAGE.name:
            allowed = {room, "_types", *PYTHON_ARROWS[room]}
            assert room_of(rest) in allowed, f"{relative(path)}: {name}"


def test_nothing_but_the_program_imports_the_command_line():
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_cli" not in path.parts and path.name != "__main__.py":
            assert f"{PACKAGE.name}._cli" not in " ".join(imports(path, False)), relative(path)


@pytest.mark.parametrize("path", sorted((PACKAGE / "_cli").rglob("*.py")), ids=relative)
def test_the_command_line_starts_with_numpy_alone(path):
    """TensorFlow takes seconds, and may not fit; others may not be installed."""
    for name in imports(path, only_top_level=True):
        package, _, rest = name.partition(".")
        assert package in (*ALWAYS, PACKAGE.name), f"{relative(path)} imports {name}"
        if package == PACKAGE.name:
            assert room_of(rest) not in ("keras", "raw_ops", "_gradients"), f"{relative(path)}"


# Their arguments are another language's, or another function's.
HANDS_ARGUMENTS_ON = ("_call", "_run", "functools.partial")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=relative)
def test_long_calls_are_by_keyword(path):
    """Who reads the seventh argument does not count to seven; two sizes are soon exchanged."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in HANDS_ARGUMENTS_ON:
            assert len(node.args) <= 5, f"{relative(path)}:{node.lineno}: {ast.unparse(node.func)}"


def test_layouts_are_made_by_keyword():
    """Three sizes in a row look alike."""
    found = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Layout":
                found += 1
                assert len(node.args) <= 1, f"{relative(path)}:{node.lineno}"
    assert found > 10


def test_a_plan_is_asked_on_both_sides_of_every_threshold():
    """Otherwise a new one could leave a route, or a way to share work, without a test."""
    thresholds = (ENGINE / "thresholds.h").read_text()
    changing_bits = thresholds[thresholds.index("namespace bits {") :]
    changing_bits = changing_bits[: changing_bits.index("}  // namespace bits")]
    named = set(re.findall(r"constexpr \w+ (k\w+)", changing_bits))
    for path in sources(ENGINE / "plan"):
        named |= set(re.findall(r"\b(?:bits|speed)::(k\w+)", path.read_text()))
    assert len(named) > 25
    asked = "".join(path.read_text() for path in (ROOT / "tests" / "engine").glob("plan*_test.cc"))
    assert not [name for name in sorted(named) if not re.search(rf"::{name}\b", asked)]


def test_every_threshold_has_its_reason_and_what_measures_it():
    text = (ENGINE / "thresholds.h").read_text()
    intro, sections = text.split("namespace bits {")
    commands = set(re.findall(r"^//   \[(\w+)\]", intro, re.MULTILINE))
    constants = r"(?:^inline constexpr (?:[^;]|\n)*;\n)+"
    found = 0
    for reason, block in re.findall(rf"((?:^//.*\n)*)({constants})", sections, re.MULTILINE):
        names = re.findall(r"constexpr \w+ (k\w+)", block)
        found += len(names)
        assert commands & set(re.findall(r"\[(\w+)\]", reason)), names
    assert found == sections.count("inline constexpr") > 50


def test_every_room_of_the_engine_has_its_arrows():
    rooms = {relative(path.parent) for path in sources(ENGINE)} - {relative(ENGINE)}
    assert rooms <= set(ARROWS)


@pytest.mark.parametrize(
    "path",
    [
        path
        for room in ("kernels", "runtime")
        for path in sources(ROOT / room)
        if path.parent == ROOT / room
    ],
    ids=relative,
)
def test_adapters_see_no_micro_kernels(path):
    pending, seen = [path], set()
    while pending:
        file = pending.pop()
        for delimiter, name in includes(file):
            if delimiter == '"' and name.startswith(("kernels/", "network/")):
                assert name != "kernels/engine/simd/simd_kernels.h", f"by {relative(file)}"
                if (ROOT / name) not in seen:
                    seen.add(ROOT / name)
                    pending.append(ROOT / name)


@pytest.mark.parametrize(
    "path", [p for p in sources(ENGINE / "simd") if is_for_one_isa(p)], ids=relative
)
def test_isa_sources_include_no_cpp_header(path):
    # Whatever they include is compiled with the instruction set's flags, so follow it.
    pending, seen = [path], set()
    while pending:
        file = pending.pop()
        if file in seen:
            continue
        seen.add(file)
        for delimiter, name in includes(file):
            if delimiter == '"':
                pending.append(ROOT / name)
            else:
                allowed = ("arm_neon.h", "immintrin.h", "math.h", "stdint.h", "string.h")
                assert name in allowed, f"{relative(file)} includes <{name}>"


def test_isa_flags_stand_in_isa_bzl_alone():
    flag = re.compile(
        r"-m(avx|sse|fma|f16c|bmi|arch=|tune=|cpu=)|GCC target|__target__|\btarget\(\""
    )
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.split("\0")
    endings = (".bzl", ".bazelrc", ".py", ".sh", ".toml", ".cc", ".h", ".inc", ".lds")
    names = ("BUILD", "WORKSPACE", "Makefile", "run")
    checked = [
        ROOT / name
        for name in files
        if name.endswith(endings) or pathlib.PurePath(name).name in names
    ]
    checked = [p for p in checked if p.is_file() and p != pathlib.Path(__file__).resolve()]
    isa_bzl = ROOT / "kernels" / "isa.bzl"
    assert isa_bzl in checked and flag.search(isa_bzl.read_text())
    offenders = [relative(p) for p in checked if p != isa_bzl and flag.search(p.read_text())]
    assert not offenders


def test_activation_tables_are_what_their_writer_writes():
    written = subprocess.run(
        [sys.executable, ROOT / "tools" / "activation_tables.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert written == (ENGINE / "simd" / "activation_tables.h").read_text()
