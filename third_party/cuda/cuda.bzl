"""Finds the CUDA toolkit: the repository @cuda.

It looks in $CUDA_HOME (also `--repo_env=CUDA_HOME=...`), or else in /usr/local/cuda. Where there is none the repository
has the same targets; whoever builds one of them under --config=cuda is told what was looked for where.

    @cuda//:cudart    the runtime, static, and all headers
    @cuda//:cublas    cuBLAS and cuBLASLt, shared, found at run time where they lay at build time
    @cuda//:config.bzl    CUDA_ROOT, the toolkit's folder ("" without one), and CUDA_MISSING, why there is none
    @cuda//:version    what nvcc says about itself: an input of what it compiles
"""

_DEFAULT_ROOT = "/usr/local/cuda"

# What a build needs, below the toolkit's folder.
_NEEDED = [
    "bin/nvcc",
    "include/cuda_runtime.h",
    "include/cublasLt.h",
    "lib64/libcudart_static.a",
    "lib64/libcublas.so",
    "lib64/libcublasLt.so",
]

_PRESENT = """\
licenses(["notice"])

filegroup(
    name = "version",
    srcs = ["version.txt"],
    visibility = ["@sangam//:users_of_cuda"],
)

cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/cccl/nv/**",
        "include/nv/**",
    ]),
    includes = [
        "include",
        "include/cccl",
    ],
)

cc_library(
    name = "cudart",
    srcs = ["lib64/libcudart_static.a"],
    linkopts = [
        "-ldl",
        "-lrt",
        "-pthread",
    ],
    visibility = ["@sangam//:users_of_cuda"],
    deps = [":headers"],
)

cc_library(
    name = "cublas",
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-Wl,--push-state,--as-needed",
        "-lcublas",
        "-lcublasLt",
        "-Wl,--pop-state",
    ],
    visibility = ["@sangam//:users_of_cuda"],
    deps = [":headers"],
)
"""

_ABSENT = """\
load("@sangam//third_party/cuda:cuda.bzl", "cuda_missing")
load(":config.bzl", "CUDA_MISSING")

[cuda_missing(
    name = name,
    visibility = ["@sangam//:users_of_cuda"],
    why = CUDA_MISSING,
) for name in [
    "version",
    "cudart",
    "cublas",
]]
"""

def _cuda_missing_impl(ctx):
    if ctx.var.get("cuda", "") == "1":
        fail(ctx.attr.why)
    return [CcInfo()]

cuda_missing = rule(
    doc = "Stands for a target of the toolkit where there is no toolkit.",
    implementation = _cuda_missing_impl,
    attrs = {"why": attr.string(mandatory = True)},
)

def _cuda_configure_impl(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    root = home or _DEFAULT_ROOT
    missing = [path for path in _NEEDED if not repository_ctx.path(root + "/" + path).exists]
    why = ""
    if missing:
        why = ("--config=cuda needs the CUDA toolkit: looked in %s (%s) and did not find %s. Set the environment " +
               "variable CUDA_HOME to the toolkit's folder, or build without --config=cuda.") % (
            root,
            "from CUDA_HOME" if home else "CUDA_HOME is not set",
            ", ".join(missing),
        )
        root = ""
        repository_ctx.file("BUILD", _ABSENT)
    else:
        root = str(repository_ctx.path(root).realpath)
        version = repository_ctx.execute([root + "/bin/nvcc", "--version"])
        if version.return_code != 0:
            fail("%s/bin/nvcc --version: %s" % (root, version.stderr))
        repository_ctx.symlink(root + "/include", "include")
        repository_ctx.symlink(root + "/lib64", "lib64")
        repository_ctx.file("version.txt", version.stdout + root + "\n", executable = False)
        repository_ctx.file("BUILD", _PRESENT.format(lib = root + "/lib64"), executable = False)
    repository_ctx.file(
        "config.bzl",
        "CUDA_ROOT = %s\nCUDA_MISSING = %s\n" % (repr(root), repr(why)),
        executable = False,
    )

cuda_configure = repository_rule(
    doc = "Makes the repository @cuda; see the head of this file.",
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
