"""`.npz` files."""

import functools
import os
import struct
import zlib
from typing import NamedTuple

import numpy as np

from tests.weights import golden
from tests.weights.hostile.attack import MB, Attack, case, of_file
from tf_cudnn_rnn import weights


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
    return npz_of(folder, npy("(" + "1," * 300 + ")", data=b"\0" * 4))


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
    return npz_of(folder, npy("(" * 400))


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


def zip_of_one_member_again_and_again(count: int, extra: bytes = b"") -> bytes:
    """One member, so often in the directory, with these bytes beside its name."""
    one = zip_bytes([stored("a", b"")])
    entry = bytearray(one[one.index(b"PK\1\2") : one.index(b"PK\5\6")])
    entry[30:32] = struct.pack("<H", len(extra))
    directory = (bytes(entry) + extra) * count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), 31, 0)
    return one[:31] + directory + end


@case
def npz_of_a_million_members(folder):
    return npz(folder, zip_of_one_member_again_and_again(600_000))


@case
def npz_before_gigabytes_of_nothing(folder):
    """A file with a hole, which takes as long to read as one without."""
    attack = npz(folder, (golden.FOLDER / "torch" / "model.npz").read_bytes())
    os.truncate(folder / "model.npz", 40 << 30)
    return attack


@case
def npz_with_a_directory_of_gigabytes(folder):
    attack = npz(folder, b"PK\3\4")
    os.truncate(folder / "model.npz", 40 << 30)
    with open(folder / "model.npz", "ab") as file:
        end = file.tell()
        file.write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 39 << 30, 0))
        file.write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 0, 0))
    return attack


@case
def npz_with_an_end_as_far_off_as_can_be(folder):
    """Before a comment that is longer than it may be: zipfile finds it all the same."""
    return npz(folder, zip_of_one_member_again_and_again(600_000) + bytes(65_536))


@case
def npz_with_long_records_beside_names(folder):
    """zipfile copies what is left of them for each."""
    return npz(folder, zip_of_one_member_again_and_again(400, struct.pack("<2H", 9, 0) * 16_383))


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
