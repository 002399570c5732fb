"""Instruction sets and their compiler flags: the only place where such flags stand."""

_AVX512 = ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma", "-mf16c"]

ISA_COPTS = {
    "scalar": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": _AVX512,
    "avx512_bf16": _AVX512 + ["-mavx512bf16", "-mavx512vnni"],
    "avx512_amx": _AVX512 + ["-mavx512bf16", "-mavx512vnni"],  # tile registers are used in assembler
    "neon": [],  # part of the baseline
}

def _copts(isa):
    if not isa.startswith("avx512"):
        return ISA_COPTS[isa]
    return select({
        "//kernels:emulates_avx512": ISA_COPTS["avx2"],
        "//conditions:default": ISA_COPTS[isa],
    })

# Which CPU has them; "scalar" is for all.
ISAS_OF_CPU = {
    "@platforms//cpu:x86_64": ["avx2", "avx512", "avx512_bf16", "avx512_amx"],
    "@platforms//cpu:aarch64": ["neon"],
    "//conditions:default": [],
}

# A product and a sum become one rounding only where the source says so: the same bits from every compiler. Without
# exceptions, code for them brings no symbols that other files have, too.
# They are taken as a whole: in one section calls among them are resolved by the assembler. Nothing unwinds through them,
# and profilers follow frame pointers.
_COPTS = [
    "-O3",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-function-sections",
    "-fno-asynchronous-unwind-tables",
]

def simd_cc_library(name, isa_srcs, srcs, hdrs, textual_hdrs = [], deps = [], **kwargs):
    """A cc_library in which some sources are compiled for one instruction set each.

    Each instruction set becomes a library <name>_<isa> with its own flags. CPUs that none is for get "scalar" alone.

    Args:
      name: the public library.
      isa_srcs: instruction set (a key of ISA_COPTS) -> its sources.
      srcs: sources compiled for the baseline, the dispatcher among them.
      hdrs: headers of all sources.
      textual_hdrs: code that the instruction sets' sources include.
      deps: of all sources.
      **kwargs: for the public library.
    """
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        textual_hdrs = textual_hdrs,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    for isa, isa_files in isa_srcs.items():
        native.cc_library(
            name = name + "_" + isa,
            srcs = isa_files,
            copts = _COPTS + _copts(isa),
            linkstatic = True,
            # The "manual" tag keeps `bazel build //...` from compiling AVX on other CPUs.
            tags = ["manual"],
            visibility = ["//tests/engine:__pkg__"],  # isa_leak_test
            deps = [name + "_headers"],
        )
    native.cc_library(
        name = name,
        srcs = srcs,
        deps = [name + "_headers", name + "_scalar"] + select({
            cpu: [name + "_" + isa for isa in isas]
            for cpu, isas in ISAS_OF_CPU.items()
        }),
        **kwargs
    )
