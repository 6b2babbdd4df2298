#!/bin/bash
# The stage of deploy/Dockerfile that has the programs: builds them, or takes those that are built already.
#
#   deploy/image/programs.sh build|prebuilt cpu|cuda FOLDER [REVISION]
#
# In the root of the sources. `prebuilt` takes the folder prebuilt (of cuda: prebuilt-cuda) that make_root.sh has made.
# Programs that are built here name REVISION with --version.
set -euo pipefail
how="$1" kind="$2" folder="$3" revision="${4:-unknown}"

ready=prebuilt
if [[ "$kind" == cuda ]]; then ready=prebuilt-cuda; fi
case "$how" in
  prebuilt)
    if [[ ! -x "$ready/usr/local/bin/sangam-worker" ]]; then
      echo "programs.sh: BINARIES=prebuilt, and there is no $ready/usr/local/bin/sangam-worker: see deploy/image/make_root.sh" >&2
      exit 1
    fi
    mkdir -p "$folder"
    cp -a "$ready/." "$folder/"
    chown -R 0:0 "$folder"
    ;;
  build)
    options=()
    programs=(bazel-bin/worker/sangam-worker)
    targets=(//worker:sangam-worker)
    if [[ "$kind" == cuda ]]; then
      # The image for GPUs has the other programs of the one for CPUs.
      options=(--config=cuda)
    else
      programs+=(bazel-bin/server/sangam-server bazel-bin/client/sangam)
      targets+=(//server:sangam-server //client:sangam)
    fi
    if [[ "$revision" != unknown ]]; then options+=(--stamp "--embed_label=$revision"); fi
    bazel build "${options[@]}" "${targets[@]}"
    deploy/image/make_root.sh "$folder" "${programs[@]}"
    ;;
  *)
    echo "programs.sh: BINARIES: found \"$how\", expected build or prebuilt" >&2
    exit 1
    ;;
esac
