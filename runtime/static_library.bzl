"""Static libraries for programs that Bazel does not link."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _static_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    objects = depset([
        object
        for dep in ctx.attr.deps
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list()
        for library in linker_input.libraries
        for object in library.pic_objects
    ])
    archive = ctx.actions.declare_file(ctx.label.name)
    arguments = ctx.actions.args()

    # D: without times and owners, so that the same objects give the same bytes.
    arguments.add("qcsD").add(archive).add_all(objects)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [arguments],
        inputs = depset(transitive = [objects, toolchain.all_files]),
        outputs = [archive],
        mnemonic = "StaticLibrary",
    )
    return [DefaultInfo(files = depset([archive]))]

static_library = rule(
    implementation = _static_library_impl,
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    doc = "An archive of cc_libraries and of all that they depend on. Its name is the target's.",
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
