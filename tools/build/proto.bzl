"""Generated C++ from .proto files, by Debian's protoc and gRPC plugin.

Messages and stubs are separate targets, because generated gRPC headers take many seconds to compile and only the rpc
layers may see them.

    load("//tools/build:proto.bzl", "sangam_grpc", "sangam_proto")

    sangam_proto(
        name = "job_proto",
        srcs = ["job.proto"],
        deps = [":model_proto"],
    )

    sangam_grpc(
        name = "job_service_grpc",
        srcs = ["job_service.proto"],
        deps = [":job_service_proto"],
    )

A file is imported, and its header included, by its path from the root of the workspace: "proto/job.proto",
"proto/job.pb.h". The well-known types (google/protobuf/timestamp.proto, ...) need no dep.
"""

_ProtoFilesInfo = provider(
    doc = "The .proto files of a target and of all that it imports.",
    fields = {"transitive": "depset of File"},
)

def _generate_impl(ctx):
    files = depset(ctx.files.srcs, transitive = [dep[_ProtoFilesInfo].transitive for dep in ctx.attr.deps])
    infix = ".grpc.pb" if ctx.attr.grpc else ".pb"
    headers = []
    sources = []
    for src in ctx.files.srcs:
        base = src.basename[:-len(".proto")]
        headers.append(ctx.actions.declare_file(base + infix + ".h"))
        sources.append(ctx.actions.declare_file(base + infix + ".cc"))

    args = ctx.actions.args()
    args.add("--proto_path=.")
    args.add("--proto_path=/usr/include")
    tools = [ctx.file._protoc]
    if ctx.attr.grpc:
        args.add(ctx.file._grpc_cpp_plugin, format = "--plugin=protoc-gen-grpc=%s")
        args.add("--grpc_out=" + ctx.bin_dir.path)
        tools.append(ctx.file._grpc_cpp_plugin)
    else:
        args.add("--cpp_out=" + ctx.bin_dir.path)
    args.add_all(ctx.files.srcs)

    ctx.actions.run(
        executable = ctx.file._protoc.path,
        arguments = [args],
        inputs = files,
        tools = tools,
        outputs = headers + sources,
        mnemonic = "SangamProto",
        progress_message = "Generating C++ from %s" % ctx.label,
    )
    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers), sources = depset(sources)),
        _ProtoFilesInfo(transitive = files),
    ]

_generate = rule(
    implementation = _generate_impl,
    attrs = {
        "deps": attr.label_list(providers = [_ProtoFilesInfo]),
        "grpc": attr.bool(),
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
        "_grpc_cpp_plugin": attr.label(default = "@system//:grpc_cpp_plugin", allow_single_file = True),
        "_protoc": attr.label(default = "@system//:protoc", allow_single_file = True),
    },
)

def _generated(labels):
    # The target behind a cc_library, which knows the .proto files.
    return [label + "_files" for label in labels]

def _cc_library(name, deps, linked, visibility, **kwargs):
    native.filegroup(
        name = name + "_headers",
        srcs = [":%s_files" % name],
        output_group = "headers",
        visibility = ["//visibility:private"],
    )
    native.filegroup(
        name = name + "_sources",
        srcs = [":%s_files" % name],
        output_group = "sources",
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [":%s_sources" % name],
        hdrs = [":%s_headers" % name],
        # Generated code is not ours to keep free of warnings.
        copts = ["-w"],
        visibility = visibility,
        deps = deps + linked,
        **kwargs
    )

def sangam_proto(name, srcs, deps = [], visibility = None, **kwargs):
    """The messages of .proto files: a cc_library with <file>.pb.h.

    Args:
      name: of the cc_library, by habit <file>_proto.
      srcs: .proto files of this package.
      deps: sangam_proto targets whose files are imported.
      visibility: of the cc_library; the package's default when not given.
      **kwargs: testonly, tags.
    """
    _generate(
        name = name + "_files",
        srcs = srcs,
        deps = _generated(deps),
        visibility = visibility,
        **kwargs
    )
    _cc_library(name, deps, ["@system//:protobuf"], visibility, **kwargs)

def sangam_grpc(name, srcs, deps, visibility = ["//:rpc_layers"], **kwargs):
    """The gRPC stubs and services of .proto files: a cc_library with <file>.grpc.pb.h.

    Args:
      name: of the cc_library, by habit <file>_grpc.
      srcs: .proto files of this package.
      deps: the sangam_proto targets of `srcs` and of what they import.
      visibility: of the cc_library; only the rpc layers when not given.
      **kwargs: testonly, tags.
    """
    _generate(
        name = name + "_files",
        srcs = srcs,
        deps = _generated(deps),
        grpc = True,
        visibility = visibility,
        **kwargs
    )
    _cc_library(name, deps, ["@system//:grpc++"], visibility, **kwargs)
