"""A repository holding the TensorFlow that configure.py found."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# System headers (`includes`): their warnings are not ours.
cc_library(
    name = "tensorflow",
    hdrs = glob(
        ["include/**"],
        exclude = ["include/**/*.cc", "include/**/*.c", "include/external/**"],
    ),
    includes = ["include"],
    linkopts = {linkopts},
)
"""

_ENVIRON = ["TF_INCLUDE", "TF_LINK_FLAGS", "TF_VERSION", "TF_CXX11_ABI"]

def _tf_configure_impl(repository_ctx):
    env = repository_ctx.os.environ
    for name in _ENVIRON:
        if name not in env:
            fail("%s is not set: run configure.py (or make) first" % name)
    repository_ctx.symlink(env["TF_INCLUDE"], "include")
    repository_ctx.file("BUILD", _BUILD.format(linkopts = env["TF_LINK_FLAGS"].split(" ")))
    repository_ctx.file("version.bzl", "TF_VERSION = %r\nTF_CXX11_ABI = %s\n" % (
        env["TF_VERSION"],
        env["TF_CXX11_ABI"],
    ))

tf_configure = repository_rule(
    implementation = _tf_configure_impl,
    environ = _ENVIRON,
    local = True,
)
