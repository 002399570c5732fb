"""`.h5` files of Keras 2."""

import json
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from tests.weights import golden
from tests.weights.hostile.attack import MB, Attack, case, of_file
from tf_cudnn_rnn import weights


def keras_h5(folder, change: Callable[[h5py.File], None] = lambda file: None) -> Attack:
    """A file of one CuDNNLSTM, of 4 units and 3 inputs, and a change to it."""
    path = folder / "model.h5"
    path.write_bytes((golden.FOLDER / "tf_keras" / "lstm_weights.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    return of_file(weights.read_keras_h5, path)


KERNEL = "first/first/kernel:0"


def replaced(folder, make: Callable[[h5py.File], Any], name: str = KERNEL) -> Attack:
    """With another object, or link, in place of a kernel."""

    def change(file):
        del file[name]
        made = make(file)
        if made is not None:
            file[name] = made

    attack = keras_h5(folder, change)
    return attack._replace(names=(*attack.names, "first"))


def secret(folder) -> str:
    """A file that nobody is to read through another."""
    path = folder / "secret"
    path.write_bytes(b"secret" * 1000)
    return str(path)


@case
def h5_with_external_storage(folder):
    def make(file):
        external = [(secret(folder), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(KERNEL, (3, 16), "<f4", external=external)

    return replaced(folder, make)


@case
def h5_with_an_external_link(folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["kernel"] = np.zeros([3, 16], np.float32)
    return replaced(folder, lambda file: h5py.ExternalLink(str(folder / "other.h5"), "kernel"))


@case
def h5_with_an_external_link_to_a_layer(folder):
    path = folder / "other.h5"
    path.write_bytes((golden.FOLDER / "tf_keras" / "lstm_weights.h5").read_bytes())
    return replaced(folder, lambda file: h5py.ExternalLink(str(path), "first"), "first")


@case
def h5_with_an_external_link_to_all(folder):
    path = folder / "other.h5"
    path.write_bytes((golden.FOLDER / "tf_keras" / "lstm_weights.h5").read_bytes())

    def change(file):
        file["model_weights"] = h5py.ExternalLink(str(path), "/")

    return keras_h5(folder, change)


@case
def h5_with_a_soft_link(folder):
    return replaced(folder, lambda file: h5py.SoftLink("/second/second/kernel:0"))


@case
def h5_with_a_virtual_dataset(folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["kernel"] = np.ones([3, 16], np.float32)

    def make(file):
        layout = h5py.VirtualLayout((3, 16), "<f4")
        layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "kernel", (3, 16))
        file.create_virtual_dataset(KERNEL, layout)

    return replaced(folder, make)


@case
def h5_of_4_tb(folder):
    def make(file):
        file.create_dataset(KERNEL, (1 << 20, 1 << 20), "<f4", chunks=(1 << 10, 1 << 10))

    return replaced(folder, make)


@case
def h5_of_1_gb_that_is_not_there(folder):
    return replaced(folder, lambda f: f.create_dataset(KERNEL, (1 << 28,), "<f4") and None)


@case
def h5_of_1_gb_in_tiny_pieces_that_are_not_there(folder):
    def make(file):
        file.create_dataset(KERNEL, (10 << 20,), "<f4", chunks=(1,))

    return replaced(folder, make)


@case
def h5_bomb(folder):
    def make(file):
        zeros = np.zeros([60 << 20], np.float32)
        file.create_dataset(
            KERNEL, data=zeros, chunks=(15 << 20,), compression="gzip", compression_opts=1
        )

    return replaced(folder, make)


@case
def h5_bomb_in_a_small_chunk(folder):
    """A chunk of 256 KB that unpacks to 250 MB."""

    def make(file):
        shape = (1 << 16,)
        dataset = file.create_dataset(KERNEL, shape, "<f4", chunks=shape, compression="gzip")
        packer = zlib.compressobj(1)
        packed = [packer.compress(bytes(1 << 20)) for _ in range(250)]
        dataset.id.write_direct_chunk((0,), b"".join([*packed, packer.flush()]))

    return replaced(folder, make)


@case
def h5_of_texts_that_share_their_bytes(folder):
    """Names of 1 MB each, in a file that holds the text once."""
    count = 3000

    def change(file):
        names = np.array(["a" * MB] + ["b"] * (count - 1), object)
        file["first"].attrs.create("weight_names", names, dtype=h5py.string_dtype())

    attack = keras_h5(folder, change)
    path = attack.arguments[0]
    content = bytearray(path.read_bytes())
    # Each element is a length (4 bytes), the address of a heap (8), and an index (4).
    start = content.index(struct.pack("<I", MB))
    element = content[start : start + 16]
    for i in range(1, count):
        at = start + 16 * i
        if content[at : at + 4] != struct.pack("<I", 1):
            break  # the end of this block of the attribute
        content[at : at + 16] = element
    assert i > 200
    path.write_bytes(content)
    return attack


@case
def h5_with_names_in_a_circle(folder):
    def change(file):
        file["first"]["a"] = file["first"]
        name = ("a/" * 30_000).encode()
        file["first"].attrs["weight_names"] = np.array([name + b"first/kernel:0"] * 1)

    return keras_h5(folder, change)


@case
def h5_with_one_array_many_times(folder):
    def change(file):
        file["a"] = file.create_group("x")
        file["a"]["k"] = np.zeros([1000, 1000], np.float32)
        file["a"].attrs["weight_names"] = np.array([b"k"] * 30_000)
        file.attrs["layer_names"] = np.array([b"a"])

    return keras_h5(folder, change)


@case
def h5_with_one_layer_many_times(folder):
    def change(file):
        file.attrs["layer_names"] = np.array([b"first"] * 10_000)

    return keras_h5(folder, change)


def element_type(folder, dtype, shape=(3, 16)) -> Attack:
    return replaced(folder, lambda f: f.create_dataset(KERNEL, shape, dtype) and None)


@case
def h5_of_records(folder):
    return element_type(folder, np.dtype([("a", "<f4"), ("b", "<f4")]))


@case
def h5_of_texts(folder):
    return element_type(folder, h5py.string_dtype())


@case
def h5_of_lists(folder):
    return element_type(folder, h5py.vlen_dtype(np.float32))


@case
def h5_of_references(folder):
    return element_type(folder, h5py.ref_dtype)


@case
def h5_of_region_references(folder):
    return element_type(folder, h5py.regionref_dtype)


@case
def h5_of_bytes(folder):
    return element_type(folder, np.dtype("V100"))


@case
def h5_of_no_dataspace(folder):
    return replaced(folder, lambda f: f.create_dataset(KERNEL, data=h5py.Empty("f")) and None)


@case
def h5_with_a_group_for_an_array(folder):
    return replaced(folder, lambda f: f.create_group(KERNEL) and None)


@case
def h5_with_a_type_for_an_array(folder):
    return replaced(folder, lambda f: np.dtype("<f4"))


@case
def h5_with_an_array_for_a_layer(folder):
    return replaced(folder, lambda f: np.zeros(3), "first")


@case
def h5_with_an_array_for_all(folder):
    return keras_h5(folder, lambda f: f.create_dataset("model_weights", data=np.zeros(3)) and None)


@case
def h5_without_an_array(folder):
    return replaced(folder, lambda f: None)


def attribute(folder, where: str, name: str, value) -> Attack:
    def change(file):
        if value is None:
            del file[where].attrs[name]
        else:
            file[where].attrs[name] = value

    attack = keras_h5(folder, change)
    return attack._replace(names=(*attack.names, name))


@case
def h5_without_weight_names(folder):
    return attribute(folder, "first", "weight_names", None)


@case
def h5_with_numbers_for_names(folder):
    return attribute(folder, "first", "weight_names", np.arange(3))


@case
def h5_with_a_number_for_names(folder):
    return attribute(folder, "/", "layer_names", 3.5)


@case
def h5_of_keras_3_with_a_name_that_is_no_text(folder):
    path = folder / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file.create_group("layers/lstm").create_group(b"\xff")
    return of_file(weights.load, path, names=("names in UTF-8",))


@case
def h5_with_names_that_are_no_text(folder):
    return attribute(folder, "/", "layer_names", np.array([b"\xff\xfe"]))


@case
def h5_with_a_table_of_names(folder):
    return attribute(folder, "/", "layer_names", np.array([[b"first"], [b"second"]]))


@case
def h5_with_a_deep_config(folder):
    return attribute(folder, "/", "model_config", "[" * 60_000)


@case
def h5_with_a_config_that_is_no_json(folder):
    return attribute(folder, "/", "model_config", "{]")


@case
def h5_with_a_config_that_is_a_number(folder):
    return attribute(folder, "/", "model_config", 7)


@case
def h5_with_a_config_of_wrong_types(folder):
    config = {"config": {"layers": [{"class_name": ["a"], "config": {"name": {}, "layer": 3}}, 4]}}
    return attribute(folder, "/", "model_config", json.dumps(config))


@case
def h5_with_a_config_of_a_list(folder):
    return attribute(folder, "/", "model_config", "[1]")


@case
def h5_cut_off(folder):
    attack = keras_h5(folder)
    path = attack.arguments[0]
    path.write_bytes(path.read_bytes()[:5000])
    return attack._replace(size=5000)


@case
def h5_that_is_a_pipe(folder):
    path = folder / "model.h5"
    os.mkfifo(path)
    return of_file(weights.read_keras_h5, path)


@case
def h5_that_is_not_there(folder):
    return of_file(weights.read_keras_h5, folder / "model.h5")


@case
def h5_that_is_a_folder(folder):
    path = folder / "model.h5"
    path.mkdir()
    return of_file(weights.read_keras_h5, path)
