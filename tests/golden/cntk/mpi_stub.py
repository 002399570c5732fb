"""Lets CNTK be imported where Open MPI 1.10 is not to be had.

CNTK's libraries are linked with it, for distributed training alone. Its functions are replaced
by ones that do nothing, so that what is written here is computed by CNTK itself.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

_MARK = "TF_CUDNN_RNN_MPI_STUB"
_SYMBOL = re.compile(r" ((?:MPI_|ompi_|opal_|_ZN|_ZT).*)")


def restart_with_stub():
    """Starts this program again with the libraries in place; returns if that is done."""
    if _MARK in os.environ:
        return
    package = importlib.util.find_spec("cntk").submodule_search_locations[0]
    libraries = pathlib.Path(package, "libs")
    symbols = set()
    for library in list(libraries.glob("libCntk.*.so")) + list(libraries.glob("Cntk.*.so")):
        listing = subprocess.run(
            ["nm", "-D", "--undefined-only", str(library)],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        symbols.update(_SYMBOL.findall(listing.decode()))
    lines = []
    for symbol in sorted(symbols):
        if symbol.startswith("MPI_") or re.match(r"_ZNK?3MPI", symbol):
            lines.append(f"int {symbol}(void) {{ return 0; }}")
        elif symbol.startswith(("ompi_", "opal_")) or re.match(r"_ZT.N3MPI", symbol):
            lines.append(f"char {symbol}[1024];")
    folder = tempfile.mkdtemp()
    for name, source in (("libmpi.so.12", "\n".join(lines)), ("libmpi_cxx.so.1", "")):
        flags = ["-w", "-shared", "-fPIC", "-fno-builtin", "-Wl,-soname," + name]
        subprocess.run(
            ["gcc"] + flags + ["-o", os.path.join(folder, name), "-x", "c", "-"],
            check=True,
            input=source.encode(),
        )
    paths = f"{folder}:{libraries}"
    environment = dict(os.environ, LD_LIBRARY_PATH=paths, **{_MARK: folder})
    os.execve(sys.executable, [sys.executable] + sys.argv, environment)
