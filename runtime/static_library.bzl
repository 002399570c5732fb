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
    linked = ctx.actions.declare_file(ctx.label.name + ".linked.o")
    object = ctx.actions.declare_file(ctx.label.name + ".o")

    # What cannot be reached from names that programs see is left out, and sections of a kind become one.
    arguments = ctx.actions.args()
    arguments.add_all(["-r", "--gc-sections", "--gc-keep-exported", "--force-group-allocation"])
    arguments.add("-T", ctx.file.sections)
    arguments.add("-o", linked)
    arguments.add_all(objects)
    ctx.actions.run(
        executable = toolchain.ld_executable,
        arguments = [arguments],
        inputs = depset([ctx.file.sections], transitive = [objects, toolchain.all_files]),
        outputs = [linked],
        mnemonic = "StaticLibraryObject",
    )

    # Names of the library's own are nobody else's business, and cannot be those of a program.
    arguments = ctx.actions.args()
    arguments.add_all(["--localize-hidden", "--strip-unneeded", linked, object])
    ctx.actions.run(
        executable = toolchain.objcopy_executable,
        arguments = [arguments],
        inputs = depset([linked], transitive = [toolchain.all_files]),
        outputs = [object],
        mnemonic = "StaticLibraryNames",
    )

    # D: without times and owners, so that the same objects give the same bytes.
    arguments = ctx.actions.args()
    arguments.add("qcsD").add(archive).add(object)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [arguments],
        inputs = depset([object], transitive = [toolchain.all_files]),
        outputs = [archive],
        mnemonic = "StaticLibrary",
    )
    return [DefaultInfo(files = depset([archive]))]

static_library = rule(
    implementation = _static_library_impl,
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "sections": attr.label(allow_single_file = True, default = "//runtime:sections.lds"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    doc = "An archive of one object: cc_libraries and what of theirs can be reached. Its name is the target's.",
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
