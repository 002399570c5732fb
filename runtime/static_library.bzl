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
    tools = toolchain.all_files

    # The compiler knows the linker and the tools of the machine that it compiles for. Those that Bazel has found
    # are this machine's, whichever it compiles for.
    compiler = toolchain.compiler_executable

    # What cannot be reached from names that programs see is left out, and sections of a kind become one.
    arguments = ctx.actions.args()
    arguments.add_all(["-r", "-nostdlib"])
    arguments.add_all(["-Wl,--gc-sections", "-Wl,--gc-keep-exported", "-Wl,--force-group-allocation"])
    arguments.add("-T", ctx.file.sections)
    arguments.add("-o", linked)
    arguments.add_all(objects)
    ctx.actions.run(
        executable = compiler,
        arguments = [arguments],
        inputs = depset([ctx.file.sections], transitive = [objects, tools]),
        outputs = [linked],
        mnemonic = "StaticLibraryObject",
        use_default_shell_env = True,  # where compilers look for their linker
    )

    # Names of the library's own are nobody else's business, and cannot be those of a program.
    ctx.actions.run_shell(
        command = '"$("$1" -print-prog-name=objcopy)" --localize-hidden --strip-unneeded "$2" "$3"',
        arguments = [compiler, linked.path, object.path],
        inputs = depset([linked], transitive = [tools]),
        outputs = [object],
        mnemonic = "StaticLibraryNames",
        use_default_shell_env = True,
    )

    # D: without times and owners, so that the same objects give the same bytes.
    ctx.actions.run_shell(
        command = '"$("$1" -print-prog-name=ar)" qcsD "$2" "$3"',
        arguments = [compiler, archive.path, object.path],
        inputs = depset([object], transitive = [tools]),
        outputs = [archive],
        mnemonic = "StaticLibrary",
        use_default_shell_env = True,
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
