"""tools/lost_routes.sh: a route of the plan that a fuzzer's calls did not take is named."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUTES = [
    line.split(maxsplit=1)
    for line in (ROOT / "tests" / "fuzz" / "engine" / "routes.txt").read_text().splitlines()
    if not line.startswith("#")
]


def lost(path: pathlib.Path, isa: str, taken: list[str]) -> subprocess.CompletedProcess:
    path.write_text("INFO: seed\n" + "".join(f"route {isa} {route}: 12\n" for route in taken))
    command = [ROOT / "tools" / "lost_routes.sh", isa, path]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("isa", ["scalar", "avx512_amx"])
def test_lost_routes(tmp_path, isa):
    wanted = [route for of, route in ROUTES if of in ("all", isa)]
    more = [*wanted, "training directions=apart"]
    result = lost(tmp_path / "log", isa, more)
    assert (result.returncode, result.stdout) == (0, "")
    result = lost(tmp_path / "log", isa, more[1:])
    assert result.returncode == 1
    assert result.stdout == f"LOST on {isa}: no call took the route {wanted[0]}.\n"
    result = lost(tmp_path / "log", "neon" if isa == "scalar" else "avx2", [])
    assert len(result.stdout.splitlines()) == sum(of == "all" for of, _ in ROUTES)


def test_they_have_the_names_that_the_engine_prints():
    text = (ROOT / "kernels" / "engine" / "plan" / "route.h").read_text()
    names = set(re.findall(r'return {"(\w+)", (?:true|false)', text))
    found = {match[1] for _, route in ROUTES if (match := re.search(r" (?:W|R|dR)=(\w+)$", route))}
    assert found == names


def test_thresholds_that_are_made_small_are_those_of_the_engine():
    """Or tools/build_fuzz.sh would end there."""
    header = (ROOT / "kernels" / "engine" / "thresholds.h").read_text()
    text = (ROOT / "tests" / "fuzz" / "engine" / "small_thresholds.txt").read_text()
    small = re.findall(r"^(k\w+) \d+$", text, re.MULTILINE)
    assert len(small) > 10
    assert not [name for name in small if not re.search(rf"constexpr \w+ {name} =", header)]
