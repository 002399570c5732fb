"""Checkpoints from strangers. TensorFlow would end the process on most of these."""

import pathlib
import random
import shutil
import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from tests.cli import bundles
from tests.weights import protobufs
from tf_cudnn_rnn._files import checkpoint
from tf_cudnn_rnn._formats import bundle

ARRAY = b"model/_functional/_operations/2/cell/kernel/.ATTRIBUTES/VARIABLE_VALUE"
GRAPH = b"_CHECKPOINTABLE_OBJECT_GRAPH"


@pytest.fixture
def prefix(tmp_path, files) -> pathlib.Path:
    """A checkpoint with layers of Keras."""
    for path in (files / "checkpoint").glob("stock.*"):
        shutil.copy(path, tmp_path)
    return tmp_path / "stock"


def array_of(entries) -> bytes:
    """The key of a matrix of a layer."""
    return min(key for key in entries if b"gru" in key or b"/cell/kernel/" in key)


def refused(run, prefix, *texts: str) -> None:
    for command in (
        ("inspect", prefix),
        ("convert", prefix, f"{prefix}.npz", "--to=params", "--layer=gru"),
    ):
        result = run(*command)
        assert result.code == 2 and str(prefix) in result.err, result
        for text in texts:
            assert text in result.err


def change_entry(prefix, key: bytes, change) -> None:
    """Changes an entry, in place, or returns other bytes for it."""
    path = f"{prefix}.index"
    entries = bundles.entries(path)
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(entries[key])
    content = change(entry)
    entries[key] = entry.SerializeToString() if content is None else content
    content = bundles.index(bundles.block(list(entries.items())))
    pathlib.Path(path).write_bytes(content)


def shape(*sizes: int):
    def change(entry):
        del entry.shape.dim[:]
        for size in sizes:
            entry.shape.dim.add(size=size)

    return change


def field(name: str, value: int):
    return lambda entry: setattr(entry, name, value)


def slices(*extents: tuple[int, int]):
    def change(entry):
        part = entry.slices.add()
        for start, length in extents:
            part.extent.add(start=start, length=length)

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda entry: b"\xff\xff", "is damaged, or forged: "),
        (shape(-1), "has the shape [-1]"),
        (shape(1 << 40, 1 << 40), "has the shape"),
        (shape(1 << 40, 1 << 40, 0), "has the shape"),
        (shape(*[1] * 300), "has the shape"),
        (lambda entry: setattr(entry.shape, "unknown_rank", True), "has the shape"),
        (field("offset", -8), "has a negative place or size"),
        (slices((0, 1)), "has a slice of 1 extents"),
        (slices((-1, 1), (0, 1)), "has a slice [-1, +1)"),
        (slices((2**62, 2**62), (0, 1)), "has a slice [4611686018427387904, +"),
    ],
)
def test_entries(run, prefix, change, text):
    entries = bundles.entries(f"{prefix}.index")
    change_entry(prefix, array_of(entries), change)
    refused(run, prefix, text, ".index")


@pytest.mark.parametrize("dtype", ["DT_VARIANT", "DT_RESOURCE", "DT_FLOAT_REF", "DT_QINT8"])
def test_types(prefix, dtype):
    key = array_of(bundles.entries(f"{prefix}.index"))
    change_entry(prefix, key, field("dtype", types_pb2.DataType.Value(dtype)))
    with pytest.raises(ValueError, match="must hold numbers or texts") as error:
        checkpoint.Variables(str(prefix))[key.decode()]
    assert str(prefix) in str(error.value)


@pytest.mark.parametrize("length", [2**31, 2**60, 2**64 - 1])
def test_texts_longer_than_the_file(run, prefix, length):
    """TensorFlow asks for the memory before it reads."""
    path = pathlib.Path(f"{prefix}.data-00000-of-00001")
    text = protobufs.varint(length)
    lengths = struct.pack("<Q" if length >= 1 << 32 else "<I", length)
    place = path.stat().st_size
    path.write_bytes(path.read_bytes() + text + bundles.checksum(lengths) + b"text")

    def change(entry):
        entry.offset, entry.size = place, len(text) + 8

    change_entry(prefix, GRAPH, change)
    refused(run, prefix, f"it has {length}")


def test_a_layer_without_its_arrays(run, prefix):
    """Its objects name a variable that is not there."""
    path = f"{prefix}.index"
    entries = bundles.entries(path)
    key = array_of(entries)
    del entries[key]
    pathlib.Path(path).write_bytes(bundles.index(bundles.block(list(entries.items()))))
    refused(run, prefix, key.decode(), "is missing")


def many_sizes() -> bytes:
    """Shapes of as many sizes as TensorFlow takes, often."""
    entry = tensor_bundle_pb2.BundleEntryProto(dtype=1)
    for _ in range(254):
        entry.shape.dim.add()
    value = entry.SerializeToString()
    entries = [(b"%05d" % number, value) for number in range(4000)]
    return bundles.index(bundles.block(entries))


HEADER = tensor_bundle_pb2.BundleHeaderProto(num_shards=1).SerializeToString()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "does not end as a table"),
        (bundles.index(bytes(5)), "a block of 0 bytes at 0, which is not there"),
        (bundles.index(bundles.block([(b"", HEADER)], kind=1)), "is compressed"),
        (bundles.index(bundles.block([(b"", HEADER)], restarts=(1,))), "restarts that are no"),
        (bundles.index(bundles.block([(b"", HEADER)], restarts=(0, 0))), "restarts that are no"),
        (bundles.index(bundles.block([(b"", HEADER)], restarts=())), "0 restarts"),
        (bundles.index(bundles.block([(b"b", b""), (b"a", b"")])), "not in order"),
        (bundles.index(bundles.block([(b"a", b""), (b"a", b"")])), "not in order"),
        (bundles.index(bundles.block([(b"a" * 5000, b"")])), "a key of 0 and 5000 bytes"),
        (bundles.index(bundles.block([(b"a", bytes(70_000))])), "an entry of 70000 bytes"),
        (many_sizes(), "more than 1000000 sizes"),
    ],
)
def test_indexes(run, prefix, content, text):
    pathlib.Path(f"{prefix}.index").write_bytes(content)
    refused(run, prefix, text)


def test_any_damage_with_right_checksums(run, prefix):
    path = pathlib.Path(f"{prefix}.index")
    entries = bundles.entries(path)
    data = bundles.block(list(entries.items()))
    end = len(data) - 4
    codes = set()
    for seed in range(200):
        rng = random.Random(seed)
        forged = bytearray(data)
        for _ in range(rng.choice((1, 2, 3))):
            forged[rng.randrange(end)] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        forged[end:] = bundles.checksum(bytes(forged[:end]))
        path.write_bytes(bundles.index(bytes(forged)))
        result = run("inspect", prefix)
        assert result.code in (0, 1) or str(prefix) in result.err, result.err
        codes.add(result.code)
    assert {1, 2} <= codes or {0, 2} <= codes


def test_what_tensorflow_writes_is_read(tmp_path):
    """Several blocks, keys that share their beginnings, and parts of a variable."""
    names = [f"scope/of/some/layers/{number:06d}/{'variable' * 20}" for number in range(3000)]
    rows = [np.zeros([2, 2], np.float32)] * 2
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "a"),
        tensor_names=[*names, "parts", "parts"],
        shape_and_slices=[""] * 3000 + ["4 2 0,2:-", "4 2 2,2:-"],
        tensors=[*[np.float32(1)] * 3000, *rows],
    )
    entries = bundle.entries(tmp_path / "a.index")
    found = checkpoint.Variables(str(tmp_path / "a"))
    assert set(found) == {*names, "parts"}
    assert {*found} <= {key.decode(errors="replace") for key, _ in entries}
    assert found["parts"].shape == (4, 2) and found[names[7]] == 1
