"""The code of docs/guide/weights.md that needs no files: it runs, and what it asserts holds."""

import pathlib
import re

DOC = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "weights.md"


def test_the_vector_of_the_ops():
    _, section = DOC.read_text().split("## The vector of the ops\n")
    code = re.search(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)[1]
    assert "weights.from_cudnn(" in code
    exec(compile(code, str(DOC), "exec"), {})
