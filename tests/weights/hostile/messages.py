"""What is said of the cases that the command line reads, too."""

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
        "npz_of_a_type_that_is_none npz_with_a_deep_header npz_with_a_header_that_is_no_text "
        "npz_of_what_is_no_npy npz_of_an_empty_member npz_with_a_wrong_checksum npz_of_patches "
        "npz_of_deflate_that_is_none npz_that_claims_more_than_it_unpacks_to"
    ),
    "must have a header of at most 1024 bytes; it has": (
        "npz_with_a_deeper_header npz_with_a_long_header npz_with_a_header_of_4_gb"
    ),
    "must be of version 1 or 2 of .npy; it is of (9, 0)": "npz_of_another_version",
    "must be stored or deflated, and not encrypted": (
        "npz_that_is_encrypted npz_of_an_unknown_method npz_of_lzma_with_a_dictionary_of_4_gb"
    ),
    "must hold at most 10000 members; it holds 600000": (
        "npz_of_a_million_members npz_with_an_end_as_far_off_as_can_be"
    ),
    "must have at most 1024 bytes beside their names; one has 65532": (
        "npz_with_long_records_beside_names"
    ),
    "a zip file, must have at most 33554432 bytes; it has": "npz_with_a_directory_of_gigabytes",
    "is damaged, or forged: zipfile says BadZipFile": (
        "npz_cut_off npz_before_gigabytes_of_nothing"
    ),
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
