"""Stands in for rules_java: the rules built into Bazel, under the names that Bazel's own files load."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_proto_library = native.java_proto_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
