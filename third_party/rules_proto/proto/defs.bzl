"""Stands in for rules_proto: the rules built into Bazel, under the names that Bazel's own files load."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
