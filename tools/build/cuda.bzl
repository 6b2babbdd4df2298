"""CUDA code, built twice from the same sources: by nvcc for a GPU, and by the C++ compiler for a CPU.

    load("//tools/build:cuda.bzl", "cuda_library")

    cuda_library(
        name = "norms",
        srcs = ["norms.cu"],
        hdrs = ["norms.h"],
        cuda_deps = [":launch"],
        deps = ["//worker/backend:shapes"],
    )

makes `:norms`, which only --config=cuda builds, and, for tests, `:norms_on_cpu`, which runs on the stand-in for CUDA
(//tests/cuda_on_cpu). Sources are .cu, and .cc that include headers of CUDA; both get the headers and libraries of CUDA
by themselves. Other cuda_library targets go into `cuda_deps` under their plain names, so that each variant depends on
its own kind; all else goes into `deps`.

nvcc sees the headers of all deps, but should not be given any that Abseil or protobuf are in.
"""

load("@cuda//:config.bzl", "CUDA_ROOT")

# Machine code for A100 (8.0) and H100, H200 (9.0); later ones translate the PTX when the program starts.
_TARGETS = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

# Sums keep their order: nothing here lets the compiler change it. That nvcc fuses multiplications and additions is as
# deterministic as the rest.
_NVCC_OPTIONS = [
    "-c",
    "-std=c++17",
    "-O3",
    "-lineinfo",
    "-Werror=all-warnings",
    "-Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off,-fno-math-errno",
]

_STAND_IN = "//tests/cuda_on_cpu"

# For what is built against the stand-in. Addresses that no multiples of their type's alignment are end the program:
# processors load from them, GPUs do not (tests/cuda_on_cpu/faults.cc).
ON_CPU_COPTS = [
    # Only nvcc knows `#pragma unroll`.
    "-Wno-unknown-pragmas",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
]

# For what is built under --config=cuda only: target_compatible_with.
CUDA_ONLY = select({
    "//:cuda": [],
    "//conditions:default": ["@platforms//:incompatible"],
})

def _nvcc_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    options = ctx.actions.args()
    options.add_all(_NVCC_OPTIONS + _TARGETS)
    options.add_all(["-I.", "-I" + ctx.bin_dir.path])
    for context in contexts:
        options.add_all(context.includes, before_each = "-I")
        options.add_all(context.quote_includes, before_each = "-I")
        options.add_all(context.system_includes, before_each = "-isystem")
        options.add_all(context.defines, format_each = "-D%s")
    objects = []
    for src in ctx.files.srcs:
        object = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, src.basename[:-len(".cu")]))
        ctx.actions.run(
            executable = CUDA_ROOT + "/bin/nvcc",
            arguments = [options, src.path, "-o", object.path],
            inputs = depset(
                [src] + ctx.files.srcs + ctx.files.hdrs + ctx.files._version,
                transitive = [context.headers for context in contexts],
            ),
            outputs = [object],
            # nvcc calls g++ and its own tools, and keeps files between them in TMPDIR.
            use_default_shell_env = True,
            mnemonic = "Nvcc",
            progress_message = "Compiling %s for GPUs" % src.short_path,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_nvcc_objects = rule(
    doc = "One object file for each .cu.",
    implementation = _nvcc_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_version": attr.label(default = "@cuda//:version"),
    },
)

def _on_cpu(label):
    """The stand-in's variant of a cuda_library: "//a/b" and "//a/b:b" are "//a/b:b_on_cpu"."""
    if ":" not in label:
        label += ":" + label.split("/")[-1]
    return label + "_on_cpu"

def cuda_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        cuda_deps = [],
        visibility = None,
        alwayslink = False,
        testonly = False,
        tags = []):
    """A library of CUDA code and its twin on the CPU: see the head of this file.

    Args:
      name: of the real one; the twin is NAME_on_cpu
      srcs: .cu, .cc and private .h
      hdrs: .h
      deps: as for a cc_library, the same in both
      cuda_deps: other cuda_library targets
      visibility: of both
      alwayslink: as for a cc_library
      testonly: of the real one; the twin always is
      tags: of both
    """
    kernels = [src for src in srcs if src.endswith(".cu")]
    others = [src for src in srcs if not src.endswith(".cu")]

    objects = []
    if kernels:
        objects = [":%s_objects" % name]
        _nvcc_objects(
            name = name + "_objects",
            srcs = kernels,
            hdrs = hdrs + [src for src in others if src.endswith(".h")],
            testonly = testonly,
            deps = deps + cuda_deps,
            tags = tags,
            target_compatible_with = CUDA_ONLY,
            visibility = ["//visibility:private"],
        )
    native.cc_library(
        name = name,
        srcs = others + objects,
        hdrs = hdrs,
        alwayslink = alwayslink,
        testonly = testonly,
        tags = tags,
        target_compatible_with = CUDA_ONLY,
        visibility = visibility,
        deps = deps + cuda_deps + [
            "@cuda//:cublas",
            "@cuda//:cudart",
        ],
    )

    # A cc_library takes no .cu: one .cc for each includes it.
    wrappers = []
    for kernel in kernels:
        wrapper = kernel[:-len(".cu")] + "_on_cpu"
        native.genrule(
            name = "%s_%s_source" % (name, wrapper),
            testonly = True,
            outs = [wrapper + ".cc"],
            cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), kernel),
            tags = tags,
            visibility = ["//visibility:private"],
        )
        wrappers.append(wrapper + ".cc")
    native.cc_library(
        name = name + "_on_cpu",
        testonly = True,
        srcs = others + wrappers,
        hdrs = hdrs,
        alwayslink = alwayslink,
        tags = tags,
        copts = ON_CPU_COPTS,
        textual_hdrs = kernels,
        visibility = visibility,
        deps = deps + [_on_cpu(dep) for dep in cuda_deps] + [_STAND_IN],
    )
