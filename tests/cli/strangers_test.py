"""Files from strangers, as a whole: what `load` and `inspect` cost, and which files they open."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from tensorflow.core.protobuf import tensor_bundle_pb2

from tests.cli import bundles, readers
from tests.weights import hostile, measured
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._files import checkpoint

WRONG = 2


def size_of(path: pathlib.Path) -> int:
    """What is really there, of all files."""
    files = path.parent.rglob("*") if path.suffix == ".index" else path.rglob("*")
    return sum(
        min(file.stat().st_size, 512 * file.stat().st_blocks)
        for file in (path, *files)
        if file.is_file()
    )


def check(outcome: measured.Outcome, path: pathlib.Path) -> None:
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    print(cost)
    assert outcome.error in ("", "ValueError", "OSError"), (outcome.error, cost)
    assert not outcome.error or str(path.parent) in outcome.message, cost
    assert outcome.seconds < outcome.seconds_allowed, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * size_of(path), cost


@pytest.fixture(scope="module")
def path(request, tmp_path_factory) -> pathlib.Path:
    """What a function makes; all readers read the same one."""
    return request.param(tmp_path_factory.mktemp("costly"))


def of_each(builders):
    return pytest.mark.parametrize("path", builders.values(), ids=builders, indirect=True)


@pytest.mark.parametrize("read", [readers.load, readers.inspect])
@of_each(hostile.keras_files.COSTLY)
def test_files_of_keras_that_cost_much(path, read):
    check(measured.run(read, path), path)


@pytest.mark.parametrize("read", [readers.load, readers.inspect])
@of_each(hostile.bundles.COSTLY)
def test_object_graphs_that_cost_much(path, read):
    check(measured.run(read, path, with_tensorflow=True), path)


@pytest.fixture
def secret(tmp_path) -> pathlib.Path:
    """A checkpoint that nobody names."""
    return hostile.bundles.of_a_layer(tmp_path / "other" / "secret", hostile.bundles.SECRET)


def refused(run, path, target, *texts: str) -> None:
    """By `load`, `inspect` and `convert`, with these texts."""
    with pytest.raises(ValueError) as raised:
        weights.load(path)
    said = [str(raised.value)]
    for command in (("inspect", path), ("convert", path, target, "--to=params")):
        result = run(*command)
        assert result.code == WRONG, result
        said.append(result.err)
    for text in said:
        assert str(path).removesuffix(".index") in text, text
        assert all(each in text for each in texts), text


@pytest.mark.parametrize("name", hostile.bundles.LEADING_ELSEWHERE)
def test_no_other_file_is_read(run, tmp_path, secret, name):
    path = hostile.bundles.LEADING_ELSEWHERE[name](tmp_path, secret)
    refused(run, path, tmp_path / "a.npz", "link")


def test_links_that_stay_in_the_folder_are_followed(tmp_path):
    """Such as those of "latest"; and whoever names a link means what it leads to."""
    prefix = hostile.bundles.of_a_layer(tmp_path / "real" / "ck", hostile.bundles.SECRET)
    for ending in ("index", "data-00000-of-00001"):
        (tmp_path / "real" / f"latest.{ending}").symlink_to(f"ck.{ending}")
    (tmp_path / "link").symlink_to("real")
    for path in (prefix, prefix.with_name("latest"), tmp_path / "link" / "ck.index"):
        assert (weights.load(path).params == hostile.bundles.SECRET).any()
    hostile.bundles.of_a_model(tmp_path / "model")
    (tmp_path / "model_link").symlink_to("model")
    assert weights.load(tmp_path / "model_link").layout.num_units == 4


@pytest.mark.parametrize("forged", [False, True])
@pytest.mark.parametrize("name", hostile.bundles.WITH_A_FOLDER_OF_THE_NAME)
def test_a_folder_of_the_name_is_not_looked_into(run, tmp_path, secret, name, forged):
    """Nobody looks at the index that it leads to, on which TensorFlow may end the process."""
    path = hostile.bundles.WITH_A_FOLDER_OF_THE_NAME[name](tmp_path, secret)
    if forged:
        entries = bundles.entries(f"{secret}.index")
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(entries[b"k"])
        del entry.shape.dim[:]
        entry.shape.dim.add(size=-1)
        entries[b"k"] = entry.SerializeToString()
        index = bundles.index(bundles.block(list(entries.items())))
        pathlib.Path(f"{secret}.index").write_bytes(index)
    assert not weights.load(path).params.any()
    assert run("inspect", path).code < WRONG
    target = tmp_path / "a.npz"
    assert run("convert", path, target, "--to=params").code == 0
    assert not weights.load(target).params.any()


def test_data_that_are_a_pipe(run, tmp_path):
    """TensorFlow would wait for its writer."""
    prefix = hostile.bundles.of_a_layer(tmp_path / "ck")
    data = tmp_path / "ck.data-00000-of-00001"
    data.unlink()
    os.mkfifo(data)
    refused(run, tmp_path / "ck.index", tmp_path / "a.npz", str(data), "a pipe or a device")
    with pytest.raises(ValueError, match="a pipe or a device"):
        checkpoint.Variables(str(prefix))


def test_a_name_that_is_a_pattern(run, tmp_path):
    """TensorFlow finds no index by it, and reads what it takes for a checkpoint of version 1."""
    prefix = hostile.bundles.of_a_layer(tmp_path / "model" / "ck[1]")
    prefix.with_name("ck1").write_bytes(b"none")
    (tmp_path / "model" / "checkpoint").write_text('model_checkpoint_path: "ck[1]"')
    refused(run, tmp_path / "model", tmp_path / "a.npz", "a path without [", "ck[1].index")


OPENS = """
import pathlib, sys
import tensorflow as tf
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli.main import main
pathlib.Path("begin").exists()
for path in sys.argv[1:]:
    weights.load(path)
    main(["inspect", path])
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_only_the_files_of_a_checkpoint_are_opened(tmp_path, secret):
    """By Python or by TensorFlow, as the system sees it."""
    model = hostile.bundles.of_a_model(tmp_path / "model")
    prefix = hostile.bundles.of_a_layer(tmp_path / "ck")
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{secret}"\n')
    log = tmp_path / "log"
    # A filter, or each other call of the system would stop for strace, too.
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "4096"]
    command += ["-e", "trace=openat,open,newfstatat,stat", "-o", log]
    command += [sys.executable, "-c", OPENS, str(model), f"{prefix}.index"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if "ptrace" in result.stderr or "Operation not permitted" in result.stderr:
        pytest.skip("strace may not trace here")
    assert result.returncode == 0, result.stderr
    _, _, lines = log.read_text().partition('"begin"')
    opened = [line.split('"')[1] for line in lines.splitlines() if "open" in line.split("(")[0]]
    found = {path for path in opened if str(tmp_path) in path}
    expected = {str(model / "saved_model.pb")}
    for start in (prefix, model / "variables" / "variables"):
        expected |= {f"{start}.index", f"{start}.data-00000-of-00001"}
    folders = {str(tmp_path), str(model / "variables")}  # whose files are listed
    assert found - folders == expected, found ^ expected
