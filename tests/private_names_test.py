"""What begins with an underscore is read where it is defined, and nowhere else.

A room is a Python file of the package. What others need of it has a name without an underscore;
so it is clear what may change without a look at other files. A file whose own name begins with
an underscore is for the package: its modules may import it, tests and programs may not.

What must be read all the same is listed here, with the reason.
"""

import ast
import collections
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "tf_cudnn_rnn"

_DEPTH = "Keras has no public way to all layers at any depth"
_CALL_STACK = "documented by Python, in spite of its name"
_SEQUENTIAL = "which masks the layers of a Sequential model get, of which Keras tells nobody"

# Packages that are private, whatever their names say.
UNDOCUMENTED = ("tensorflow.python", "keras.src")

# Of TensorFlow, Keras and Python.
READ_BY_THE_PACKAGE = {
    "tf_cudnn_rnn/_cli/info.py": {
        "tensorflow.python": "which kernels there are, of which TensorFlow tells nothing in public",
    },
    "tf_cudnn_rnn/_program.py": {
        "_exit": "documented by Python, in spite of its name",
        "_getframe": _CALL_STACK,
    },
    "tf_cudnn_rnn/keras/_dropout_seed.py": {
        "_getframe": _CALL_STACK,
        "tensorflow.python": "whether op determinism is enabled; where it is gone, assumed not",
    },
    "tf_cudnn_rnn/keras/_files.py": {
        "_h5_entry_group": "Keras' stores read whatever size a file says, which has to be compared",
    },
    "tf_cudnn_rnn/keras/_graphs.py": {
        "tensorflow.python": "whether a tape records; where it is gone, assumed to",
    },
    "tf_cudnn_rnn/keras/_inner_loop.py": {
        "tensorflow.python": "whether a graph is for XLA; where it is gone, assumed not",
    },
    "tf_cudnn_rnn/keras/_models.py": {
        "_compile_config": "what `compile` was told, of which Keras tells the names alone",
        "_flatten_layers": _DEPTH,
        "_trainable_variables": "of which variables an optimiser has state",
    },
    "tf_cudnn_rnn/keras/_onnx_nodes.py": {"_getframe": _CALL_STACK},
    "tf_cudnn_rnn/keras/_stock_stack.py": {
        "_functional": _SEQUENTIAL,
        "_layers": "Keras' own children of a layer, of which to copy the weights one by one",
        "_nodes_by_depth": _SEQUENTIAL,
        "_non_trainable_variables": "a layer's own, without those of its children",
        "_trainable_variables": "a layer's own, without those of its children",
    },
    "tf_cudnn_rnn/keras/_warnings.py": {"_getframe": _CALL_STACK},
    "tf_cudnn_rnn/keras/cudnn_rnn.py": {
        "_call_signature": "where Keras would find `mask`",
        "_keras_mask": "how Keras 3 hands masks from layer to layer",
    },
}

# Of the package.
READ_BY_OTHERS = {
    "benchmarks/machine.py": {
        "_library": "stamps results with what the library was built for",
        "_machine": "and with the machine",
    },
    "tests/cli/bundles.py": {"_formats": "reads the entries of an index to change them"},
    "tests/cli/bench_test.py": {"_cli": "tests it", "_machine": "pretends a busy machine"},
    "tests/cli/checkpoints_test.py": {"_files": "tests it", "_formats": "likewise"},
    "tests/cli/conftest.py": {
        "_cli": "calls the program without a process",
        "_formats": "writes files for it",
    },
    "tests/cli/convert_test.py": {
        "_cli": "fails in the middle of a write",
        "_files": "fails where weights are read, which must not be",
        "_formats": "reads graphs of ONNX, where the package may not be installed",
    },
    "tests/cli/document_test.py": {"_cli": "asks for the formats that the page must name"},
    "tests/cli/info_test.py": {
        "_cli": "asks for the variables that a page must have",
        "_machine": "reads what the system says of a processor",
    },
    "tests/cli/inspect_damaged_test.py": {
        "_cli": "counts the parts that it shows",
        "_formats": "writes a header",
    },
    "tests/runtime/python_calls_test.py": {
        "_FOLDER": "pretends that libraries were not built",
        "_PYTHON_VERSION": "pretends to be of another version",
        "_handle": "what functions of Python in C++ are called with",
        "_library": "looks for the functions in it",
        "_load_functions": "loads a library that is damaged",
        "_path_of": "reads a library",
        "_run": "tests it, whose mistakes the public call catches",
        "_step": "likewise",
    },
    "tests/runtime/runtime_test.py": {
        "_path_of": "looks into a library that is not public",
        "_fields_": "that is public in ctypes",
        **dict.fromkeys(
            (
                "_ABI_VERSION",
                "_Config",
                "_Error",
                "_Int8Weights",
                "_MODES",
                "_OUT_OF_MEMORY",
                "_TYPES",
            ),
            "compares it with the header",
        ),
    },
    "tests/weights/hostile/worst.py": {"_formats": "writes headers, and files of the runtime"},
    "tests/weights/chosen_parts_test.py": {"_cli": "writes a file that the program alone writes"},
    "tests/weights/calls.py": {"_cli": "measures it"},
    "tests/weights/onnx_constants_test.py": {"_formats": "tests it"},
    "tests/weights/int8_test.py": {"_formats": "reads and writes files of the runtime"},
    "tests/cli/inspect_test.py": {
        "_cli": "texts of commands that nobody can paste",
        "_files": "asks for a variable that is not there",
        "_formats": "tests the readers of graphs",
        "_print": "texts that no reader lets through",
    },
    "tests/cli/load_test.py": {
        "_cli": "compares what `inspect` looks into with what readers take",
        "_files": "compares what readers take with what type checkers are told",
        "_formats": "writes files for it",
        "_types": "likewise",
    },
    "tests/cli/main_test.py": {
        "_cli": "lets a command fail",
        "_program": "tests who starts the command line",
    },
    "tests/cli/readers.py": {"_cli": "calls a command where there may be no TensorFlow"},
    "tests/cli/strangers_test.py": {"_files": "opens a checkpoint that `inspect` would refuse too"},
    "tests/docs/troubleshooting_test.py": {
        "_FOLDER": "pretends that the runtime was not built",
        "_library": "has messages of other installations",
        "_load_library": "loads a runtime that is damaged",
    },
    "tests/fuzz/file_formats/checkpoints.py": {"_formats": "fuzzes headers alone"},
    "tests/fuzz/file_formats/command_line.py": {
        "_cli": "calls commands without main(), which would catch what is a finding",
        "_files": "tells mistakes in what is asked from files that are refused",
        "_formats": "reads the header of what was converted",
    },
    "tests/fuzz/file_formats/graphs.py": {
        "_files": "asks what `convert` asks of a graph",
        "_formats": "compares what is read of a graph with protobuf",
    },
    "tests/fuzz/file_formats/hdf5.py": {"_formats": "reads HDF5 files without a process each"},
    "tests/fuzz/file_formats/keras.py": {"_formats": "likewise"},
    "tests/fuzz/write_seeds.py": {"_formats": "writes an ONNX model of a converter's nodes"},
    "tests/keras/accelerate_test.py": {"_accelerate": "pretends another version of Keras"},
    "tests/keras/cudnn_rnn_dropout_test.py": {
        "_dropout_seed": "what it keeps, and its threads, show nowhere else; checkpoints have the "
        "layer's attribute of this name"
    },
    "tests/keras/cudnn_rnn_to_keras_test.py": {"_options": "asks for all options there are"},
    "tests/keras/cudnn_rnn_weights_test.py": {
        "_formats": "where each matrix of `params` begins",
    },
    "tests/keras/environment_test.py": {"_environment": "calls it with other versions of Keras"},
    "tests/ops/calls.py": {"_library": "calls an op that only gradients of gradients call"},
    "tests/python/eager_calls_test.py": {"_library": "looks at how TensorFlow makes the calls"},
    "tests/python/import_test.py": {"_elf": "tests it", "_library": "tests it"},
    "tests/python/keras_weights_test.py": {
        "_layout": "where each weight lies is what is tested",
        "_packing": "tests it",
    },
    "tests/python/layout_test.py": {"_layout": "tests it"},
    "tests/python/second_order_test.py": {
        "_library": "calls an op that only gradients of gradients call",
        "_second_order": "counts what it builds",
    },
}

# Public in spite of their names: https://docs.python.org/3/library/collections.html
NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def relative(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources(*folders: str) -> list[pathlib.Path]:
    found = [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    assert found
    return found


def is_module(name: str) -> bool:
    """Whether this is a module of the package."""
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


class Names(ast.NodeVisitor):
    """The private names of one file.

    Attributes:
      defined: those that it defines: functions, classes, variables, and attributes of `self`.
      imported: (module, name) of all that it imports, private or not; (module, "") for a module.
      others: what it calls these.
      read: those that are an attribute of something, with the source of that something.
    """

    def __init__(self, source: str):
        self.defined: set[str] = set()
        self.imported: list[tuple[str, str]] = []
        self.others: set[str] = set()
        self.read: list[tuple[str, str]] = []
        self.visit(ast.parse(source))

    def _visit_definition(self, node) -> None:
        self.defined.add(node.name)
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_definition

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.defined.add(node.id)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported.append((alias.name, ""))
            self.others.add((alias.asname or alias.name).split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, "imports are absolute here"
        for alias in node.names:
            self.imported.append((node.module, alias.name))
            self.others.add(alias.asname or alias.name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if is_private(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if own and isinstance(node.ctx, ast.Store):
                self.defined.add(node.attr)
            else:
                self.read.append((ast.unparse(node.value), node.attr))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # getattr(x, "_y"), and monkeypatch.setattr(x, "_y", ...).
        function = node.func.attr if isinstance(node.func, ast.Attribute) else None
        function = node.func.id if isinstance(node.func, ast.Name) else function
        if function in ("getattr", "hasattr", "setattr", "delattr") and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                self.read.append((ast.unparse(node.args[0]), name.value))
        self.generic_visit(node)

    def foreign(self) -> set[str]:
        """The private names that it reads of others, but for private modules of the package."""
        found = set()
        for module, name in self.imported:
            inside = module.split(".")[0] == PACKAGE
            if is_private(name) and not (inside and is_module(f"{module}.{name}")):
                found.add(name)
            if not inside:
                found.update(filter(is_private, module.split(".")))
                found.update(
                    package for package in UNDOCUMENTED if f"{module}.".startswith(f"{package}.")
                )
        for owner, name in self.read:
            if is_module(f"{owner}.{name}"):  # tf_cudnn_rnn._layout
                continue
            if name not in self.defined or self._is_of_another(owner):
                found.add(name)
        return found - NAMED_TUPLE

    def of_package(self, private: set[str]) -> set[str]:
        """What it reads of the package, which has these private names."""
        found = set()
        for module, name in self.imported:
            if module.split(".")[0] == PACKAGE:
                found.update(filter(is_private, [*module.split("."), name]))
        for owner, name in self.read:
            if name in private and (name not in self.defined or self._is_of_another(owner)):
                found.add(name)
        return found - NAMED_TUPLE

    def _is_of_another(self, owner: str) -> bool:
        """Whether this is a module or a class from elsewhere, rather than some object."""
        path = owner.split(".")
        return path[0] in self.others and all(map(str.isidentifier, path))


def names_of(path: pathlib.Path) -> Names:
    return Names(path.read_text())


def private_names_of_the_package() -> set[str]:
    names = set()
    for path in sources(PACKAGE):
        names |= names_of(path).defined | {path.stem, *path.relative_to(ROOT).parts[:-1]}
    return set(filter(is_private, names))


@pytest.mark.parametrize("path", sources(PACKAGE), ids=relative)
def test_no_module_reads_what_is_private_to_another(path):
    listed = set(READ_BY_THE_PACKAGE.get(relative(path), {}))
    found = names_of(path).foreign()
    assert found - listed == set(), "give it a public name, or list it with the reason"
    assert listed - found == set(), "it is not read any more; take it off the list"


def test_tests_and_programs_read_what_is_public():
    private = private_names_of_the_package()
    found = collections.defaultdict(set)
    for path in sources("tests", "benchmarks", "examples"):
        if names := names_of(path).of_package(private):
            found[relative(path)] = names
    assert found == {file: set(names) for file, names in READ_BY_OTHERS.items()}


@pytest.mark.parametrize("listed", [READ_BY_THE_PACKAGE, READ_BY_OTHERS])
def test_each_exception_has_a_file_and_a_reason(listed):
    for file, names in listed.items():
        assert (ROOT / file).is_file() and all(names.values()), file


# Each line breaks the rule in its own way.
BREACHES = [
    "from tensorflow.python.eager import record",
    "import keras.src.backend",
    "from tf_cudnn_rnn._formats.vectors import _read",
    "from tf_cudnn_rnn._formats import vectors\nvectors._read()",
    "from tf_cudnn_rnn._formats import vectors as v\nv._read()",
    "import tf_cudnn_rnn.weights\ntf_cudnn_rnn.weights._read()",
    "from tf_cudnn_rnn._formats import vectors\ndef _read(): return vectors._read()",
    "import tf_cudnn_rnn.weights\ndef _read(): return tf_cudnn_rnn.weights._read()",
    "from tf_cudnn_rnn import Layout\ndef _read(): return Layout._read",
    "def size(layer): return layer._shapes",
    "def hide(layer): layer._shapes = None",
    "def size(layer): return getattr(layer, '_shapes')",
    "class A(B):\n  def f(self): return self._of_b",
    "from tensorflow.python import _pywrap_utils",
    "from tensorflow._api.v2 import v2",
    "import tensorflow._api.v2",
]
OBSERVED = [
    "from tf_cudnn_rnn import _layout\n_layout.integer('T', 1)",
    "from tf_cudnn_rnn._layout import Layout as _Layout\n_Layout",
    "import tf_cudnn_rnn\ntf_cudnn_rnn._layout.integer('T', 1)",
    "class A:\n  _x: int\n  def f(self, other): return self._x + other._x",
    "class A:\n  def __init__(self): self._x = 1\n  def f(self): return self._x",
    "def f(row): return row._replace(a=1), row.__dict__, [_ for _ in row]",
]


@pytest.mark.parametrize("source", BREACHES)
def test_the_rule_sees(source):
    assert Names(source).foreign()


@pytest.mark.parametrize("source", OBSERVED)
def test_the_rule_lets_pass(source):
    assert not Names(source).foreign()
