"""Builds the wheel and the source distribution: the PEP 517 backend named in pyproject.toml.

A wheel around a library that Bazel built is a zip file with three small text files beside the
package. Writing it here takes nothing but Python, so `pip install --no-build-isolation .` works
wherever TensorFlow is installed.

As a program it packs what `make build` has put into tf_cudnn_rnn/: build_backend.py OUTPUT_FOLDER.
"""

import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    try:
        import tomli as tomllib
    except ModuleNotFoundError:
        from pip._vendor import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "tf_cudnn_rnn"

# What a build reads, and so what a source distribution holds.
SOURCES = [
    ".bazelignore",
    ".bazelrc",
    ".bazelversion",
    "BUILD",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "WORKSPACE",
    "configure.py",
    "docs",
    "examples",
    "exports.lds",
    "kernels",
    "network",
    "ops",
    "pyproject.toml",
    "tests",
    "tf_cudnn_rnn",
    "third_party",
    "tools",
]

# (glibc 2.x, libstdc++'s GLIBCXX_3.4.x) that the manylinux_2_x platforms promise, oldest first.
MANYLINUX = [(17, 19), (24, 22), (27, 24), (31, 28), (34, 29), (35, 30), (39, 33)]


def get_project():
    """Returns the [project] table of pyproject.toml, with the version that the package tells."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (ROOT / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    project["version"] = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)[1]
    return project


def get_metadata(project):
    """Returns the core metadata (METADATA, PKG-INFO) as text."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    lines += [f"Requires-Dist: {requirement}" for requirement in project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {it}; extra == "{extra}"' for it in requirements]
    readme = (ROOT / project["readme"]).read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + readme


def get_wheel_info(tag):
    """Returns the WHEEL file's text."""
    return f"Wheel-Version: 1.0\nGenerator: {PACKAGE}\nRoot-Is-Purelib: false\nTag: {tag}\n"


def get_tag(library):
    """Returns the wheel's tag: any Python 3, the oldest platform that the library can run on."""
    content = library.read_bytes()
    glibc = max(map(int, re.findall(rb"\bGLIBC_2\.(\d+)", content)), default=0)
    glibcxx = max(map(int, re.findall(rb"\bGLIBCXX_3\.4\.(\d+)", content)), default=0)
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    for has_glibc, has_glibcxx in MANYLINUX:
        if glibc <= has_glibc and glibcxx <= has_glibcxx:
            platform = platform.replace("linux", f"manylinux_2_{has_glibc}", 1)
            break
    return f"py3-none-{platform}"


def write_wheel(package, folder):
    """Packs a package folder that holds the built files, and returns the wheel's name."""
    project = get_project()
    tag = get_tag(package / f"_{PACKAGE}.so")
    stem = f"{PACKAGE}-{project['version']}"
    info = f"{stem}.dist-info"

    files = {
        f"{PACKAGE}/{path.relative_to(package)}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.suffix in (".py", ".so") or path.name == "py.typed"
    }
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = get_metadata(project).encode()
    files[f"{info}/WHEEL"] = get_wheel_info(tag).encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # ZipInfo's fixed time: equal sources make equal wheels.
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return wheel.name


def ignore_outputs(folder, names):
    """Tells shutil.copytree what in the source folders is not source."""
    del folder
    return {
        name for name in names if name in ("__pycache__", "_build_info.py") or name.endswith(".so")
    }


def copy_sources(destination):
    """Copies SOURCES into a new folder."""
    destination.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, destination / name, ignore=ignore_outputs)
        else:
            shutil.copy(ROOT / name, destination / name)


def find_bazel():
    """Returns Bazel's path, or ends the build with what to do."""
    bazel = shutil.which("bazel") or shutil.which("bazelisk")
    if bazel is None:
        sys.exit(
            f"{PACKAGE} is built by Bazel, which is not on PATH: "
            "install bazel-bootstrap (Debian, Ubuntu) or bazelisk."
        )
    return bazel


def run(*command, folder):
    """Runs a command, which explains itself when it fails, and ends the build with it."""
    if subprocess.run(command, cwd=folder).returncode != 0:
        sys.exit(f"{PACKAGE} was not built: `{' '.join(map(str, command[:2]))} ...` failed.")


# The hooks that pip calls. Their names and arguments are PEP 517's.


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Writes the metadata alone, after a look for Bazel: pip asks for it before it builds."""
    find_bazel()
    project = get_project()
    info = pathlib.Path(metadata_directory, f"{PACKAGE}-{project['version']}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(get_metadata(project), encoding="utf-8")
    (info / "WHEEL").write_text(get_wheel_info("py3-none-any"))
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds in a copy of the sources and a fresh output folder: a developer's stay untouched."""
    with tempfile.TemporaryDirectory() as folder:
        bazel = [find_bazel(), f"--output_user_root={folder}/bazel"]
        source = pathlib.Path(folder, "source")
        copy_sources(source)
        run(sys.executable, "configure.py", folder=source)
        try:
            # Warnings that only a newer compiler knows are no reason not to install.
            no_error = "--per_file_copt=^//@-Wno-error"
            run(*bazel, "build", no_error, "//tf_cudnn_rnn", folder=source)
        finally:
            run(*bazel, "shutdown", folder=source)
        for built in (f"_{PACKAGE}.so", f"{PACKAGE}/_build_info.py"):
            shutil.copy(source / "bazel-bin" / built, source / PACKAGE)
        return write_wheel(source / PACKAGE, pathlib.Path(wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    """Packs the sources."""
    project = get_project()
    stem = f"{PACKAGE}-{project['version']}"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, stem)
        copy_sources(source)
        (source / "PKG-INFO").write_text(get_metadata(project), encoding="utf-8")
        with tarfile.open(pathlib.Path(sdist_directory, f"{stem}.tar.gz"), "w:gz") as archive:
            archive.add(source, stem)
    return f"{stem}.tar.gz"


def main():
    """Packs what `make build` left in the package folder."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    print(folder / write_wheel(ROOT / PACKAGE, folder))


if __name__ == "__main__":
    main()
