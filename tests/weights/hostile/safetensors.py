"""`.safetensors` files."""

import os

from tests.weights.hostile.attack import MB, Attack, case, of_file
from tf_cudnn_rnn import weights


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
