"""Writes the reference: each public name with its signature and docstring.

tests/api/public_api.txt says which names and signatures there are, and a test holds it to the
library. Docstrings are read from the sources, so that neither TensorFlow nor a build is needed.
"""

import ast
import dataclasses
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tf_cudnn_rnn"
PUBLIC_API = ROOT / "tests" / "api" / "public_api.txt"
SECTIONS = ("Args", "Attributes", "Call arguments", "Raises", "Returns", "Yields")

# What each page is for, before the module's own words.
_INTRODUCTIONS = {
    "tf_cudnn_rnn": "What `import tf_cudnn_rnn` gives.",
    "tf_cudnn_rnn.raw_ops": "The ops, called as those of `tf.raw_ops` are.",
    "tf_cudnn_rnn.weights": "Weights of other libraries, in and out. Needs NumPy alone.",
    "tf_cudnn_rnn.runtime": "Networks on NumPy arrays, without TensorFlow.",
    "tf_cudnn_rnn.keras": "Keras layers, and whole Keras models.",
}


@dataclasses.dataclass
class Entry:
    """A public function, class or member."""

    name: str
    signature: str  # what follows the name, parentheses included; "" for attributes
    is_class: bool = False
    base: str = ""
    results: str = ""
    members: list["Entry"] = dataclasses.field(default_factory=list)


def public() -> dict[str, list[Entry]]:
    """The public names of each module, as public_api.txt has them."""
    modules: dict[str, list[Entry]] = {}
    for line in PUBLIC_API.read_text(encoding="utf-8").splitlines():
        if not line or "module " in line:
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            entries = modules.setdefault(line, [])
            continue
        is_class = line.startswith("  class ")
        name, rest = re.match(r"(?:class |\.)?(\w+)(.*)$", line.strip()).groups()
        signature, after = _split_signature(rest)
        entry = Entry(name, signature, is_class)
        if indent == 4:
            entries[-1].members.append(entry)
            continue
        entry.base = after.removeprefix(": ") if after.startswith(": ") else ""
        entry.results = after.removeprefix(" -> ") if after.startswith(" -> ") else ""
        entries.append(entry)
    return modules


def _split_signature(rest: str) -> tuple[str, str]:
    depth = 0
    for i, c in enumerate(rest):
        depth += (c == "(") - (c == ")")
        if c == ")" and depth == 0:
            return rest[: i + 1], rest[i + 1 :]
    return "", rest


class Sources:
    """Definitions of the package, by module and name."""

    def __init__(self) -> None:
        self.trees = {}
        for path in sorted(PACKAGE.rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.trees[module] = (path, ast.parse(path.read_text(encoding="utf-8")))

    def find(self, module: str, name: str) -> tuple[pathlib.Path, ast.FunctionDef | ast.ClassDef]:
        """The definition that `name` has in a module, followed through imports."""
        path, tree = self.trees[module]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                if node.name == name and node in tree.body:
                    return path, node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module in self.trees:
                        return self.find(node.module, alias.name)
        raise LookupError(f"{module} has no {name}")

    def member(self, module: str, cls: ast.ClassDef, name: str) -> ast.AST | None:
        """A method or property of a class, or of a base class that is in the package."""
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                if ast.get_docstring(node):
                    return node
        for base in cls.bases:
            if isinstance(base, ast.Name):
                try:
                    path, found = self.find(module, base.id)
                except LookupError:
                    continue
                return self.member(self.module_of(path), found, name)
        return None

    def module_of(self, path: pathlib.Path) -> str:
        """The module that a file is."""
        return next(module for module, (p, _) in self.trees.items() if p == path)


def write(folder: pathlib.Path) -> set[str]:
    """Writes a page for each module, and an index; returns the names that have an entry."""
    folder.mkdir(parents=True)
    sources, modules = Sources(), public()
    names = set()
    for module, entries in modules.items():
        pieces = [f"# {module}", _INTRODUCTIONS[module]]
        pieces.append(markdown(ast.get_docstring(sources.trees[module][1])))
        for entry in entries:
            names.add(f"{module}.{entry.name}")
            pieces.append(_entry(sources, module, entry))
            names |= {f"{module}.{entry.name}.{member.name}" for member in entry.members}
        (folder / f"{module.split('.')[-1]}.md").write_text("\n\n".join(pieces) + "\n")
    (folder / "index.md").write_text(_index(sources, modules))
    return names


def _index(sources: Sources, modules: dict[str, list[Entry]]) -> str:
    lines = [
        "# Reference",
        "Every public name, with the shapes and units of what it takes and returns, and the errors "
        "that it raises. The text is that of the docstrings: `help()` shows the same. The letters "
        "in shapes (T, B, I, H, P, L, D) are explained in [raw_ops](raw_ops.md), the equations and "
        "where they come from in [Equations](../guide/equations.md).",
    ]
    for module, entries in modules.items():
        lines += [f"## {module}", "| name | |\n| --- | --- |"]
        for entry in entries:
            first = _first_sentence(ast.get_docstring(sources.find(module, entry.name)[1]) or "")
            lines[-1] += f"\n| {{py:obj}}`{entry.name} <{module}.{entry.name}>` | {first} |"
    pages = "\n".join(module.split(".")[-1] for module in modules)
    lines.append(f"```{{toctree}}\n:hidden:\n\n{pages}\n```")
    return "\n\n".join(lines) + "\n"


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return _escaped(re.split(r"(?<=[a-z\])`])[.;:] ", paragraph + " ")[0].rstrip(" .") + ".")


def _entry(sources: Sources, module: str, entry: Entry) -> str:
    path, node = sources.find(module, entry.name)
    body = [markdown(ast.get_docstring(node) or "")]
    if entry.base:
        body.insert(0, f"*A kind of `{entry.base}`.*")
    if entry.results:
        body.append(f"Fields of the result: `{entry.results}`.")
    if "rnn_mode" in entry.signature or entry.name.endswith(("LSTM", "GRU", "RNN")):
        body.append("What each mode computes: [Equations](../guide/equations.md).")
    for member in entry.members:
        found = sources.member(sources.module_of(path), node, member.name)
        text = markdown(ast.get_docstring(found)) if found else ""
        kind = "method" if member.signature else "attribute"
        body.append(_directive(f"py:{kind}", member.name + member.signature, text, depth=5))
    place = path.relative_to(ROOT).as_posix()
    body.append(f"<small>Defined in `{place}`, line {node.lineno}.</small>")
    kind = "class" if entry.is_class else "function"
    full = f"{module}.{entry.name}{entry.signature}"
    return f"## {entry.name}\n\n" + _directive(f"py:{kind}", full, "\n\n".join(body), depth=7)


def _directive(kind: str, argument: str, body: str, depth: int) -> str:
    fence = ":" * depth
    return f"{fence}{{{kind}}} {argument}\n\n{body}\n{fence}"


def _escaped(text: str) -> str:
    """Markdown that shows the text; `code` and **bold** keep their meaning."""
    pieces = re.split(r"(`[^`]*`|\*\*[^*\s][^*]*\*\*)", text)
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r"([*_<\[\]|])", r"\\\1", pieces[i])
    return "".join(pieces)


def markdown(docstring: str) -> str:
    """A docstring in Google's style as Markdown."""
    blocks, lines = [], docstring.split("\n")
    while lines:
        line = lines.pop(0)
        if not line.strip():
            continue
        section = line.rstrip().removesuffix(":")
        if line.endswith(":") and section in SECTIONS:
            body = _take(lines, lambda it: it.startswith(" ") or not it.strip())
            blocks.append(f"**{section}**\n\n{_items(body, section)}")
        elif line.startswith(" "):
            body = [line, *_take(lines, lambda it: it.startswith(" ") or not it.strip())]
            blocks.append("```none\n" + textwrap.dedent("\n".join(body)).strip("\n") + "\n```")
        elif line.startswith(">>>"):
            body = [line, *_take(lines, lambda it: it.strip())]
            blocks.append("```pycon\n" + "\n".join(body) + "\n```")
        elif re.match(r"\w+(, \w+)*  +\S", line):  # a table of names, as modules have
            body = [line, *_take(lines, lambda it: it.strip())]
            blocks.append("```none\n" + "\n".join(body) + "\n```")
        else:
            body = [line, *_take(lines, lambda it: it.strip() and not it.startswith(" "))]
            blocks.append(_escaped(" ".join(body)))
    return "\n\n".join(blocks)


def _take(lines: list[str], wanted) -> list[str]:
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _items(lines: list[str], section: str) -> str:
    """The items of a section as a list; paragraphs stay paragraphs."""
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    out = []
    for paragraph in re.split(r"\n(?=\S)|\n\n", text):
        flat = " ".join(paragraph.split())
        match = re.match(r"((?:\*\*)?[\w.]+(?:, [\w.]+)*): (.*)$", flat)
        if match and section != "Yields":
            out.append(f"- `{match[1]}`: {_escaped(match[2])}")
        else:
            out.append(_escaped(flat))
    return re.sub(r"^(- .*)\n\n(?=- )", r"\1\n", "\n\n".join(out), flags=re.MULTILINE)
