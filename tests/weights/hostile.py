"""Files that nobody writes who means well, and what reads them.

Each case is a function that takes an empty folder, and returns a reader, its arguments, and how
many bytes the reader is honestly given.
"""

import functools
import json
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import h5py
import numpy as np

from tests.weights import golden
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import Layout, OnnxNode, ParamName

CASES: dict[str, Callable] = {}
MB = 1_000_000


class Attack(NamedTuple):
    """A call to be refused.

    Attributes:
      read: the function.
      arguments: its arguments.
      size: the bytes that are really there.
      names: what the message must say: the file, or the place.
    """

    read: Callable[..., Any]
    arguments: tuple
    size: int
    names: tuple[str, ...]


# What is said of the files whose names begin with npz_ or safetensors_, by any reader.
SAYS = {
    "would take": "npz_bomb npz_bomb_of_many_members",
    "must be there once; it is there twice": (
        "npz_bomb_of_overlapping_members npz_with_one_name_twice"
    ),
    "must have the bytes of its shape": (
        "npz_of_4_tb npz_of_4_gb npz_that_is_shorter_than_it_says npz_that_is_longer_than_it_says"
    ),
    "must have a shape of up to 32 sizes": (
        "npz_of_more_than_any_integer npz_of_negative_size npz_of_size_true npz_of_many_dimensions"
    ),
    "must hold numbers or texts; it holds": (
        "npz_of_elements_without_size npz_of_objects npz_of_records npz_of_subarrays"
    ),
    "is damaged, or forged: NumPy says": (
        "npz_of_a_type_that_is_none npz_with_a_deep_header npz_with_a_deeper_header "
        "npz_with_a_long_header npz_with_a_header_of_4_gb npz_with_a_header_that_is_no_text "
        "npz_of_what_is_no_npy npz_of_an_empty_member npz_with_a_wrong_checksum npz_of_patches "
        "npz_of_deflate_that_is_none npz_that_claims_more_than_it_unpacks_to"
    ),
    "must be of version 1 or 2 of .npy; it is of (9, 0)": "npz_of_another_version",
    "must be stored or deflated, and not encrypted": (
        "npz_that_is_encrypted npz_of_an_unknown_method npz_of_lzma_with_a_dictionary_of_4_gb"
    ),
    "must hold at most 10000 members; it holds 600000": "npz_of_a_million_members",
    "is damaged, or forged: zipfile says BadZipFile": "npz_cut_off",
    "must be a file; it is a pipe or a device": (
        "npz_that_is_a_pipe safetensors_that_are_a_pipe safetensors_without_end"
    ),
    "No such file or directory": "npz_that_is_not_there",
    "must have a floating-point dtype; got": "npz_of_texts_for_weights npz_of_floats_of_16_bytes",
    "of each of 1000000000 layers and 1 directions; missing": "npz_of_a_layer_far_away",
    "must give dtype, shape and data_offsets of": (
        "safetensors_of_a_long_shape safetensors_of_a_long_shape_of_ones "
        "safetensors_of_numbers_of_many_digits safetensors_with_a_long_name "
        "safetensors_with_a_long_entry safetensors_of_wrong_types "
        "safetensors_of_numbers_that_are_none"
    ),
    "its header is no JSON": (
        "safetensors_of_a_number_of_a_million_digits safetensors_with_half_a_character"
    ),
    "must lie in 4398046511104 bytes from byte 0 of 8": "safetensors_of_4_tb",
    "its header has lists in lists of JSON": (
        "safetensors_of_a_deep_header safetensors_of_deep_objects"
    ),
    "it must have 8388608 at most": (
        "safetensors_of_many_small_values safetensors_of_many_small_objects "
        "safetensors_of_one_wide_character safetensors_of_many_arrays_of_nothing "
        "safetensors_in_a_file_with_holes"
    ),
    "twice in one object of JSON": "safetensors_with_a_name_twice safetensors_with_a_key_twice",
    "must tell the size of a header within its 10 bytes": (
        "safetensors_of_a_header_as_long_as_the_file"
    ),
    # The command line says of a file what it is, where a reader of one kind says what it misses.
    "": (
        "npz_with_a_member_of_another_kind npz_that_is_a_folder npz_of_other_arrays "
        "safetensors_of_nothing_times_much safetensors_that_are_a_folder"
    ),
}


def said_of(name: str) -> str:
    """A part of what is said of a case."""
    (says,) = [says for says, names in SAYS.items() if name in names.split()]
    return says


def case(build: Callable) -> Callable:
    CASES[build.__name__] = build
    return build


def of_file(read: Callable[..., Any], path, *arguments: Any, names: tuple[str, ...] = ()) -> Attack:
    size = os.stat(path).st_size if os.path.isfile(path) else 0
    return Attack(read, (path, *arguments), size, (str(path), *names))


# ------------------------------------------------------------------------------------
# .npz
# ------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A member of a zip file, honest or not."""

    name: str
    stored: bytes
    size: int  # what it claims to be unpacked
    method: int = 0
    flags: int = 0
    crc: int = 0


def stored(name: str, content: bytes) -> Member:
    return Member(name, content, len(content), crc=zlib.crc32(content))


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def zip_bytes(members: list[Member], shared: bool = False) -> bytes:
    """A zip file. `shared`: all members are the first one's bytes."""
    body = bytearray()
    directory = bytearray()
    offset = 0
    for i, member in enumerate(members):
        name = member.name.encode()
        fields = (member.flags, member.method, 0, 0x21, member.crc, len(member.stored), member.size)
        if not (shared and i):
            offset = len(body)
            body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, *fields, len(name), 0)
            body += name + member.stored
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, *fields, len(name), 0, 0, 0, 0, 0, offset
        )
        directory += name
    count = min(len(members), 0xFFFF)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + end)


def npy(shape="(2,)", descr="'<f4'", data: bytes = b"\0" * 8, version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    return npy_of_header(header.encode(), data, version)


def npy_of_header(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def npz(folder, content: bytes) -> Attack:
    path = folder / "model.npz"
    path.write_bytes(content)
    return of_file(weights.from_torch, path, "lstm")


def npz_of(folder, *members: bytes) -> Attack:
    content = [stored(f"weight_ih_l{i}.npy", member) for i, member in enumerate(members)]
    attack = npz(folder, zip_bytes(content))
    return attack._replace(names=(*attack.names, "weight_ih_l0"))


@functools.cache
def zeros_deflated(size: int) -> bytes:
    """An .npy of so many zeros, packed."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    head = npy(f"({size},)", "'|u1'", b"")
    packed = [packer.compress(head)]
    piece = bytes(1 << 20)
    for _ in range(size >> 20):
        packed.append(packer.compress(piece))
    return b"".join([*packed, packer.flush()])


@case
def npz_bomb(folder):
    size = 250 << 20
    packed = zeros_deflated(size)
    claim = size + len(npy(f"({size},)", "'|u1'", b""))
    return npz(folder, zip_bytes([Member("weight_ih_l0.npy", packed, claim, 8)]))


@case
def npz_bomb_of_many_members(folder):
    size = 20 << 20
    packed = zeros_deflated(size)
    claim = size + len(npy(f"({size},)", "'|u1'", b""))
    members = [Member(f"a{i}.npy", packed, claim, 8) for i in range(40)]
    return npz(folder, zip_bytes(members))


@case
def npz_bomb_of_overlapping_members(folder):
    size = 20 << 20
    packed = zeros_deflated(size)
    claim = size + len(npy(f"({size},)", "'|u1'", b""))
    members = [Member("a0.npy", packed, claim, 8) for i in range(1000)]
    return npz(folder, zip_bytes(members, shared=True))


@case
def npz_of_4_tb(folder):
    return npz_of(folder, npy(f"({1 << 40},)"))


@case
def npz_of_4_gb(folder):
    return npz_of(folder, npy(f"({1 << 30},)"))


@case
def npz_of_more_than_any_integer(folder):
    return npz_of(folder, npy(f"({10**40}, {10**40})"))


@case
def npz_of_negative_size(folder):
    return npz_of(folder, npy("(-2,)"))


@case
def npz_of_size_true(folder):
    return npz_of(folder, npy("(True, 2)"))


@case
def npz_of_elements_without_size(folder):
    return npz_of(folder, npy(f"({1 << 62},)", "'|V0'", b""))


@case
def npz_of_many_dimensions(folder):
    return npz_of(folder, npy("(" + "1," * 3000 + ")", data=b"\0" * 4))


@case
def npz_of_objects(folder):
    return npz_of(folder, npy("(1,)", "'|O'", b"cos\nsystem\n(S'true'\ntR."))


@case
def npz_of_records(folder):
    return npz_of(folder, npy("(1,)", "[('a', '<f4'), ('b', '<f4')]"))


@case
def npz_of_subarrays(folder):
    return npz_of(folder, npy("(1,)", "('<f4', (1000000,))"))


@case
def npz_of_a_type_that_is_none(folder):
    return npz_of(folder, npy("(1,)", "'<q99'"))


@case
def npz_with_a_deep_header(folder):
    return npz_of(folder, npy("(" * 3000))


@case
def npz_with_a_deeper_header(folder):
    return npz_of(folder, npy("[" * 4900 + "]" * 4900))


@case
def npz_with_a_long_header(folder):
    return npz_of(folder, npy_of_header(b" " * (20 * MB), version=2))


@case
def npz_with_a_header_of_4_gb(folder):
    return npz_of(folder, b"\x93NUMPY\x02\0" + b"\xff" * 20)


@case
def npz_with_a_header_that_is_no_text(folder):
    return npz_of(folder, npy_of_header(b"\xff\0" * 40))


@case
def npz_of_another_version(folder):
    return npz_of(folder, npy_of_header(b"{}", version=9))


@case
def npz_that_is_shorter_than_it_says(folder):
    return npz_of(folder, npy("(100,)"))


@case
def npz_that_is_longer_than_it_says(folder):
    return npz_of(folder, npy("(1,)"))


@case
def npz_of_what_is_no_npy(folder):
    return npz_of(folder, b"no array")


@case
def npz_of_an_empty_member(folder):
    return npz_of(folder, b"")


@case
def npz_with_a_member_of_another_kind(folder):
    attack = npz(folder, zip_bytes([stored("weight_ih_l0", npy())]))
    return attack._replace(names=(*attack.names, "weight_ih_l0"))


@case
def npz_with_one_name_twice(folder):
    attack = npz(folder, zip_bytes([stored("weight_ih_l0.npy", npy())] * 2))
    return attack._replace(names=(*attack.names, "weight_ih_l0"))


@case
def npz_with_a_wrong_checksum(folder):
    attack = npz(folder, zip_bytes([stored("weight_ih_l0.npy", npy())._replace(crc=1)]))
    return attack._replace(names=(*attack.names, "weight_ih_l0"))


@case
def npz_that_is_encrypted(folder):
    return npz(folder, zip_bytes([stored("weight_ih_l0.npy", npy())._replace(flags=1)]))


@case
def npz_of_patches(folder):
    return npz(folder, zip_bytes([stored("weight_ih_l0.npy", npy())._replace(flags=0x20)]))


@case
def npz_of_an_unknown_method(folder):
    return npz(folder, zip_bytes([stored("weight_ih_l0.npy", npy())._replace(method=99)]))


@case
def npz_of_lzma_with_a_dictionary_of_4_gb(folder):
    content = b"\x09\x04\x05\0\x5d\xff\xff\xff\xff" + b"\0" * 100
    return npz(folder, zip_bytes([Member("weight_ih_l0.npy", content, 1 << 20, 14)]))


@case
def npz_of_deflate_that_is_none(folder):
    return npz(folder, zip_bytes([Member("weight_ih_l0.npy", b"\xff" * 99, 200, 8)]))


@case
def npz_that_claims_more_than_it_unpacks_to(folder):
    packed = deflate(npy())
    return npz(folder, zip_bytes([Member("weight_ih_l0.npy", packed, 1 << 20, 8)]))


@case
def npz_of_a_million_members(folder):
    one = zip_bytes([stored("a", b"")])
    entry = one[one.index(b"PK\1\2") : one.index(b"PK\5\6")]
    directory = entry * 600_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), 31, 0)
    return npz(folder, one[:31] + directory + end)


@case
def npz_cut_off(folder):
    content = (golden.FOLDER / "torch" / "model.npz").read_bytes()
    return npz(folder, content[: len(content) // 2])


@case
def npz_that_is_a_folder(folder):
    path = folder / "model.npz"
    path.mkdir()
    return of_file(weights.from_torch, path, "lstm")


@case
def npz_that_is_a_pipe(folder):
    path = folder / "model.npz"
    os.mkfifo(path)
    return of_file(weights.from_torch, path, "lstm")


@case
def npz_that_is_not_there(folder):
    return of_file(weights.from_torch, folder / "model.npz", "lstm")


@case
def npz_of_other_arrays(folder):
    return npz(folder, zip_bytes([stored("a.npy", npy())]))


@case
def npz_of_texts_for_weights(folder):
    arrays = {"weight_ih_l0": np.full([8, 3], "a"), "weight_hh_l0": np.full([8, 2], "a")}
    np.savez(folder / "model.npz", **arrays)
    return of_file(weights.from_torch, folder / "model.npz", "lstm")


@case
def npz_of_floats_of_16_bytes(folder):
    arrays = {
        "weight_ih_l0": np.zeros([8, 3], np.longdouble),
        "weight_hh_l0": np.zeros([8, 2], np.longdouble),
    }
    np.savez(folder / "model.npz", **arrays)
    return of_file(weights.from_torch, folder / "model.npz", "lstm")


@case
def npz_of_a_layer_far_away(folder):
    arrays = {
        "weight_ih_l0": np.zeros([8, 3], np.float32),
        "weight_hh_l0": np.zeros([8, 2], np.float32),
        "weight_ih_l999999999": np.zeros([8, 2], np.float32),
    }
    np.savez(folder / "model.npz", **arrays)
    return of_file(weights.from_torch, folder / "model.npz", "lstm", names=("999999999",))


# ------------------------------------------------------------------------------------
# .safetensors
# ------------------------------------------------------------------------------------


def safetensors(folder, header: bytes, data: bytes = b"", size: int | None = None) -> Attack:
    path = folder / "model.safetensors"
    size = len(header) if size is None else size
    path.write_bytes(size.to_bytes(8, "little") + header + data)
    return of_file(weights.from_torch, path, "lstm")


def entry(shape: str = "[2]", dtype: str = '"F32"', offsets: str = "[0,8]") -> bytes:
    return f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'.encode()


def one_entry(folder, *arguments: str) -> Attack:
    attack = safetensors(folder, b'{"weight_ih_l0":' + entry(*arguments) + b"}", b"\0" * 8)
    return attack._replace(names=(*attack.names, "weight_ih_l0"))


@case
def safetensors_of_a_long_shape(folder):
    return one_entry(folder, "[" + "9999999999," * 200_000 + "1]")


@case
def safetensors_of_a_long_shape_of_ones(folder):
    return one_entry(folder, "[" + "1," * 900_000 + "2]")


@case
def safetensors_of_numbers_of_many_digits(folder):
    return one_entry(folder, "[" + ("9" * 4000 + ",") * 2000 + "1]")


@case
def safetensors_of_a_number_of_a_million_digits(folder):
    return safetensors(folder, b'{"a":' + b"9" * MB + b"}")


@case
def safetensors_of_nothing_times_much(folder):
    return safetensors(folder, b'{"a":' + entry(f"[0,{1 << 62},{1 << 62}]", offsets="[0,0]") + b"}")


@case
def safetensors_of_4_tb(folder):
    return one_entry(folder, f"[{1 << 40}]", '"F32"', f"[0,{1 << 42}]")


@case
def safetensors_of_a_deep_header(folder):
    return safetensors(folder, b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}")


@case
def safetensors_of_deep_objects(folder):
    return safetensors(folder, b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


@case
def safetensors_of_many_small_values(folder):
    return safetensors(folder, b'{"a":[' + b"[]," * 8_000_000 + b"1]}")


@case
def safetensors_of_many_small_objects(folder):
    return safetensors(folder, b'{"a":[' + b'{"":{}},' * 3_000_000 + b"1]}")


@case
def safetensors_of_one_wide_character(folder):
    return safetensors(
        folder, b'{"__metadata__":{"a":"' + b"a" * (30 * MB) + "😀".encode() + b'"}}'
    )


@case
def safetensors_of_many_arrays_of_nothing(folder):
    text = b",".join(b'"%d":' % i + entry("[0]", offsets="[0,0]") for i in range(300_000))
    return safetensors(folder, b"{" + text + b"}")


@case
def safetensors_with_a_long_name(folder):
    attack = safetensors(folder, b'{"' + b"a" * (5 * MB) + b'":3}')
    return attack


@case
def safetensors_with_half_a_character(folder):
    return safetensors(folder, b'{"\\ud800":3}')


@case
def safetensors_with_a_long_entry(folder):
    return safetensors(folder, b'{"a":"' + b"a" * (5 * MB) + b'"}')


@case
def safetensors_with_a_name_twice(folder):
    return safetensors(folder, b'{"a":' + entry() + b',"a":' + entry() + b"}", b"\0" * 8)


@case
def safetensors_with_a_key_twice(folder):
    text = b'{"a":{"dtype":"I64","dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    return safetensors(folder, text, b"\0" * 8)


@case
def safetensors_of_wrong_types(folder):
    return one_entry(folder, '{"a":1}', "[]", '"x"')


@case
def safetensors_of_numbers_that_are_none(folder):
    return one_entry(folder, "[NaN]", '"F32"', "[0,Infinity]")


@case
def safetensors_of_a_header_as_long_as_the_file(folder):
    return safetensors(folder, b"{}", size=1 << 40)


@case
def safetensors_in_a_file_with_holes(folder):
    attack = safetensors(folder, b"", size=90_000_000)
    os.truncate(attack.arguments[0], 10**12)
    return attack._replace(size=8)


@case
def safetensors_that_are_a_pipe(folder):
    path = folder / "model.safetensors"
    os.mkfifo(path)
    return of_file(weights.read_safetensors, path)


@case
def safetensors_that_are_a_folder(folder):
    path = folder / "model.safetensors"
    path.mkdir()
    return of_file(weights.read_safetensors, path)


@case
def safetensors_without_end(folder):
    path = folder / "model.safetensors"
    path.symlink_to("/dev/zero")
    return of_file(weights.read_safetensors, path)


# ------------------------------------------------------------------------------------
# .h5
# ------------------------------------------------------------------------------------


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


# ------------------------------------------------------------------------------------
# Mappings of arrays, whose keys and texts come from a file
# ------------------------------------------------------------------------------------


def of_mapping(read: Callable, mapping: dict, *arguments, names: tuple[str, ...] = ()) -> Attack:
    size = sum(len(str(key)) for key in mapping)
    size += sum(len(v) if isinstance(v, bytes) else np.asarray(v).nbytes for v in mapping.values())
    return Attack(functools.partial(read, mapping, *arguments), (), size, names)


def state(**more: np.ndarray) -> dict:
    of_layer = {"weight_ih_l0": [8, 3], "weight_hh_l0": [8, 2]}
    return {name: np.zeros(shape, np.float32) for name, shape in of_layer.items()} | more


MATRIX = np.zeros([8, 2], np.float32)


@case
def torch_layer_far_away(folder):
    far = "weight_ih_l999999999"
    return of_mapping(weights.from_torch, state(**{far: MATRIX}), "lstm", names=(far,))


@case
def torch_of_many_layers_without_end(folder):
    far = {f"weight_ih_l{2 * i}": np.zeros([0], np.float32) for i in range(20_000)}
    return of_mapping(weights.from_torch, state(**far), "lstm", names=("weight_ih_l1",))


@case
def torch_with_a_long_key(folder):
    far = {"a." * 500_000 + "weight_ih_l0": MATRIX}
    return of_mapping(weights.from_torch, state(**far), "lstm", names=("prefix",))


TF1 = "rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell/"


def tf1(layer) -> dict:
    cell = TF1.format(layer)
    return {cell + "kernel": np.zeros([5, 8], np.float32), cell + "bias": np.zeros(8, np.float32)}


@case
def tf1_layer_far_away(folder):
    variables = tf1(0) | tf1(999999999)
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("999999999",))


@case
def tf1_layer_of_5000_digits(folder):
    variables = tf1("9" * 5000)
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("cell_9999",))


@case
def tf1_of_texts(folder):
    variables = {key: np.full(array.shape, "a") for key, array in tf1(0).items()}
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("floating-point",))


@case
def tf1_of_times(folder):
    names = {key.replace("cudnn_compatible", "basic"): array for key, array in tf1(0).items()}
    variables = {k: np.zeros(array.shape, "m8[s]") for k, array in names.items()}
    return of_mapping(weights.from_tf1_lstm_cell, variables, names=("floating-point",))


@case
def tf1_with_a_long_key(folder):
    key = "rnn/" * 100_000 + TF1.format(0) + "kernel/a"
    return of_mapping(weights.from_tf1_cudnn, {key: MATRIX}, "lstm", names=("found",))


def onnx(attributes: dict, op_type: Any = "LSTM", names=(), **arrays) -> Attack:
    shapes = {"W": [1, 8, 3], "R": [1, 8, 2], "B": [1, 16]}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()} | arrays
    read = functools.partial(weights.from_onnx, OnnxNode(op_type, attributes, **arrays))
    return Attack(read, (), 1000, ("nodes", *names))


@case
def onnx_activations_of_numbers(folder):
    return onnx({"activations": [1, 2, 3]}, names=("activations",))


@case
def onnx_activations_of_a_number(folder):
    return onnx({"activations": 3}, names=("activations",))


@case
def onnx_activations_that_are_no_text(folder):
    return onnx({"activations": [b"\xff", b"Tanh", b"Tanh"]}, names=("activations",))


@case
def onnx_direction_of_a_number(folder):
    return onnx({"direction": 1}, names=("direction",))


@case
def onnx_hidden_size_of_an_array(folder):
    return onnx({"hidden_size": np.arange(3)}, names=("hidden_size",))


@case
def onnx_flag_of_a_text(folder):
    return onnx({"linear_before_reset": b"\xff"}, "GRU", names=("linear_before_reset",))


@case
def onnx_flag_of_an_array(folder):
    return onnx({"input_forget": np.arange(3)}, names=("input_forget",))


@case
def onnx_op_type_of_a_list(folder):
    return onnx({}, ["LSTM"], names=("op_type",))


@case
def onnx_kernel_of_none(folder):
    return onnx({}, names=("W",), W=None)


@case
def onnx_peepholes_of_texts(folder):
    return onnx({}, names=("P",), P=np.array(["a"]))


# ------------------------------------------------------------------------------------
# Checkpoints
# ------------------------------------------------------------------------------------

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def node(children: dict[str, int], key: str = "") -> bytes:
    """A TrackableObject."""
    content = b"".join(
        field(1, field(1, child) + field(2, name.encode())) for name, child in children.items()
    )
    return field(1, content + (field(2, field(3, key.encode())) if key else b""))


HEADER = {
    "format": "tf_cudnn_rnn/params",
    "version": 1,
    "rnn_mode": "rnn_tanh",
    "num_layers": 1,
    "num_units": 1,
    "input_size": 1,
    "direction": "unidirectional",
    "input_mode": "linear_input",
    "num_proj": 0,
    "gates": [""],
    "params_size": 4,
}


def checkpoint(*more: bytes, header: Any = None, params: Any = None, names=(GRAPH,)) -> Attack:
    """One layer, and what else the graph has."""
    if not (isinstance(header, bytes) or header is not None):
        header = HEADER
    if isinstance(header, dict):
        header = json.dumps(header).encode()
    graph = b"".join(
        [
            node({"layer": 1}),
            node({"params": 2, "params_header": 3}),
            node({}, "params"),
            node({}, "header"),
            *more,
        ]
    )
    params = np.zeros(4, np.float32) if params is None else params
    variables = {GRAPH: graph, "params": params, "header": header}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=names)


def graph_of(graph: Any) -> Attack:
    variables = {GRAPH: graph}
    size = len(graph) if isinstance(graph, bytes) else 100
    return Attack(functools.partial(weights.checkpoint_to_canonical, variables), (), size, (GRAPH,))


@case
def checkpoint_with_a_long_varint(folder):
    return graph_of(b"\x08" + b"\xff" * MB + b"\x01")


@case
def checkpoint_with_long_varints(folder):
    return graph_of((b"\x08" + b"\xff" * 10_000 + b"\x01") * 100)


@case
def checkpoint_with_a_child_of_a_long_varint(folder):
    reference = b"\x08" + b"\xff" * 300_000 + b"\x01" + field(2, b"a")
    return graph_of(field(1, field(1, reference)))


@case
def checkpoint_of_a_long_path(folder):
    """A chain, whose paths together are as long as its length squared."""
    return graph_of(b"".join(node({"a" * 60: i + 1}) for i in range(30_000)) + node({}))


@case
def checkpoint_of_a_long_path_to_layers(folder):
    """A path of 1 MB to 10,000 layers."""
    children = {f"l{i}": 2 for i in range(10_000)}
    layers = [node(children)] + [node({"params": 3, "params_header": 4})]
    nodes = [node({"a" * MB: 1}), *layers, node({}, "params"), node({}, "header")]
    variables = {GRAPH: b"".join(nodes), "params": np.zeros(5), "header": json.dumps(HEADER)}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=(GRAPH,))


@case
def checkpoint_of_many_layers(folder):
    nodes = [node({f"l{i}": i + 3 for i in range(50_000)}), node({}, "params"), node({}, "header")]
    nodes += [node({"params": 1, "params_header": 2})] * 50_000
    variables = {GRAPH: b"".join(nodes), "params": np.zeros(4), "header": json.dumps(HEADER)}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=("variables",))


@case
def checkpoint_of_many_nodes(folder):
    return graph_of(b"\x0a\x00" * 10_000_000)


@case
def checkpoint_of_many_children(folder):
    return graph_of(field(1, b"\x0a\x00" * 10_000_000))


@case
def checkpoint_of_deep_groups(folder):
    return graph_of(b"\x0b" * 500_000)


@case
def checkpoint_of_deep_messages(folder):
    content = b""
    for _ in range(3000):
        content = field(1, content)
    return graph_of(content)._replace(names=("variables", "none"))


@case
def checkpoint_with_a_circle_and_no_layer(folder):
    graph = node({"a": 1}) + node({"b": 0, "c": 1})
    return graph_of(graph)._replace(names=("variables", "none"))


@case
def checkpoint_with_a_child_that_is_not_there(folder):
    return graph_of(node({"a": 1000}))


@case
def checkpoint_with_a_negative_child(folder):
    return graph_of(node({"a": (1 << 64) - 1}) + node({}))


@case
def checkpoint_without_nodes(folder):
    return graph_of(b"")


@case
def checkpoint_that_is_cut_off(folder):
    return graph_of(node({"a": 1})[:-1])


@case
def checkpoint_whose_names_are_no_text(folder):
    return graph_of(field(1, field(1, field(1, 1) + field(2, b"\xff"))) + node({}))


@case
def checkpoint_whose_graph_is_an_array(folder):
    return graph_of(np.arange(5))


@case
def checkpoint_whose_graph_is_a_number(folder):
    return graph_of(np.float32(3))


@case
def checkpoint_whose_graph_is_none(folder):
    return graph_of(None)


@case
def checkpoint_whose_slots_multiply(folder):
    """Lists of 3000 slots each, 3000 of them."""
    count = 3000
    variables = {str(i): 2 for i in range(count)}
    lists = {f"s{i}": 5 for i in range(count)}
    optimizer = node({"_trainable_variables": 5, **lists})
    more = (optimizer, node(variables))
    graph = [node({"layer": 1, "optimizer": 4}), node({"params": 2, "params_header": 3})]
    graph += [node({}, "params"), node({}, "header"), *more]
    arrays = {
        GRAPH: b"".join(graph),
        "params": np.zeros(4, np.float32),
        "header": json.dumps(HEADER).encode(),
    }
    attack = of_mapping(weights.checkpoint_to_canonical, arrays, names=("params",))
    read = functools.partial(attack.read, None, "nothing")
    return attack._replace(read=read)


def header(change: dict, names=("layer/params_header",)) -> Attack:
    return checkpoint(header={**HEADER, **change}, names=names)


@case
def header_of_a_billion_layers(folder):
    return header({"num_layers": 10**9, "params_size": 4 + 4 * (10**9 - 1)}, names=("params",))


@case
def header_of_a_billion_units(folder):
    size = 10**9 + 10**18 + 2 * 10**9
    return header({"num_units": 10**9, "params_size": size}, names=("params",))


@case
def header_of_a_number_of_4000_digits(folder):
    return header({"num_layers": 10**4000, "params_size": 4 * 10**4000})


@case
def header_of_a_deep_list(folder):
    return checkpoint(header=b"[" * MB, names=("layer/params_header",))


@case
def header_of_a_number(folder):
    return checkpoint(header=np.float32(3), names=("layer/params_header",))


@case
def header_of_an_array(folder):
    return checkpoint(header=np.arange(3), names=("layer/params_header",))


@case
def header_that_is_long(folder):
    return checkpoint(header=b'{"a":"' + b"a" * (10 * MB) + b'"}', names=("layer/params_header",))


@case
def header_that_is_no_text(folder):
    return checkpoint(header=b"\xff\xfe\xff", names=("layer/params_header",))


@case
def header_of_a_list_for_a_mode(folder):
    return header({"rnn_mode": ["lstm"]})


@case
def header_of_an_object_for_a_size(folder):
    return header({"num_units": {"a": 1}})


@case
def header_of_a_fraction_for_a_size(folder):
    return header({"num_units": 1.5})


@case
def header_of_a_list_for_a_name(folder):
    return header({"layer": [1] * 1000})


@case
def params_of_texts(folder):
    return checkpoint(params=np.array(["a"] * 4), names=("params",))


@case
def params_of_objects(folder):
    return checkpoint(params=np.array([None] * 4), names=("params",))


# ------------------------------------------------------------------------------------
# Numbers of layers
# ------------------------------------------------------------------------------------


def many_layers(read: Callable, value: Any, mode: str = "lstm", names=("[4]",)) -> Attack:
    return Attack(read, (value, mode, 10**9, 2, 2), 16, names)


@case
def params_of_a_billion_layers(folder):
    return many_layers(weights.params_to_canonical, np.zeros(4))


@case
def cudnn_of_a_billion_layers(folder):
    return many_layers(weights.from_cudnn, np.zeros(4))


@case
def mxnet_of_a_billion_layers(folder):
    return many_layers(weights.from_mxnet, np.zeros(4))


@case
def cntk_of_a_billion_layers(folder):
    return many_layers(weights.from_cntk, np.zeros(4))


@case
def named_weights_of_a_billion_layers(folder):
    named = {ParamName(0, "forward", "input", "input_kernel"): np.zeros([2, 2])}
    return many_layers(weights.canonical_to_params, named, names=("missing",))


@case
def no_weights_of_a_billion_layers(folder):
    return many_layers(weights.canonical_to_params, {}, names=("missing",))


@case
def canonical_of_a_billion_layers(folder):
    return Attack(weights.Canonical, (Layout("gru", 10**9, 1, 1), {}), 0, ("missing",))


@case
def named_weights_of_other_types(folder):
    named = [(ParamName([], {}, 3.5, None), np.zeros(3))]
    return Attack(weights.canonical_to_params, (named, "lstm", 1, 2, 2), 24, ("named",))
