#!/bin/bash
# Builds the image of deploy/Dockerfile from the programs of this build and runs it. The step `image` of tests/run.sh.
#
#   tests/deploy/image.sh
#
# The base is a Debian 12 of debootstrap's kind, made once and kept in ~/.cache/sangam-image; no registry of images is
# asked. Needs root, buildah and mmdebstrap; where these do not work the step is skipped with a line that says why.
# The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

skip() {
  echo "image: skipped: $1"
  echo "0 passed, 0 failed"
  exit 0
}

((EUID == 0)) || skip "only root can build it with chroot isolation"
for command in buildah mmdebstrap jq; do
  command -v "$command" >/dev/null || skip "there is no $command"
done

work="$(mktemp -d)"
cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sangam-image"
mkdir -p "$cache"
# One run at a time: all share the folder of images.
exec 9>"$cache/lock"
flock --wait 300 9 || skip "another run holds $cache for more than 5 minutes"

# The driver overlay where the kernel lets us: vfs, which works everywhere, copies the whole image for each step.
driver=overlay
buildah_command=()
use_driver() {
  buildah_command=(buildah --root "$cache/$1" --runroot "$work/run-$1" --storage-driver "$1")
}
driver_works() {
  local container
  container="$("${buildah_command[@]}" from scratch)" && "${buildah_command[@]}" mount "$container" &&
    "${buildah_command[@]}" rm "$container"
}
use_driver "$driver"
if ! driver_works >/dev/null 2>&1; then
  driver=vfs
  use_driver "$driver"
  driver_works >/dev/null 2>"$work/driver.log" || skip "buildah cannot work here: $(tail -n 1 "$work/driver.log")"
fi
buildah_here() {
  "${buildah_command[@]}" "$@"
}
containers=()
tag="test-$$"
# shellcheck disable=SC2317  # called by trap
clean() {
  local container
  for container in "${containers[@]}"; do buildah_here rm "$container" >/dev/null 2>&1; done
  # What is left of builds, and what an earlier run that was stopped has left.
  buildah_here rm --all >/dev/null 2>&1
  buildah_here images --format '{{.ID}} {{.Name}}' 2>/dev/null | awk '$2 !~ /sangam-base/ { print $1 }' | sort -u |
    while read -r image; do buildah_here rmi --force "$image" >/dev/null 2>&1; done
  rm -rf "$work"
}
trap clean EXIT

# The base: the newest packages of the month, so that a cached one does not grow old unseen.
suite=bookworm
base="localhost/sangam-base:$suite-$(date +%Y-%m)"
make_base() {
  local mirror container
  # From where this machine has its packages.
  # shellcheck disable=SC2016  # apt-get expands it
  mirror="$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    awk -v suite="$suite" '$2 == suite && $3 == "main" { print "deb", $0; exit }')"
  [[ -n "$mirror" ]] || return 1
  timeout 500 mmdebstrap --quiet --dpkgopt=force-unsafe-io --variant=apt --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' "$suite" "$work/base.tar" "$mirror" \
    </dev/null >"$work/base.log" 2>&1 || return 1
  container="$(buildah_here from scratch)" || return 1
  buildah_here add --quiet "$container" "$work/base.tar" / >/dev/null &&
    buildah_here commit --quiet --rm "$container" "$base" >/dev/null || return 1
  rm -f "$work/base.tar"
  # Those of earlier months.
  buildah_here images --format '{{.ID}} {{.Name}}:{{.Tag}}' | awk -v base="$base" '$2 ~ /sangam-base:/ && $2 != base { print $1 }' |
    while read -r image; do buildah_here rmi --force "$image" >/dev/null 2>&1; done
}
if ! buildah_here inspect --type image "$base" >/dev/null 2>&1; then
  echo "image: making the base (once a month)"
  make_base || { tail -n 5 "$work/base.log" 2>/dev/null; skip "mmdebstrap or buildah could not make the base"; }
fi

passed=0
failed=0
# check NAME COMMAND...: the command must succeed.
check() {
  local name="$1" start=$SECONDS
  shift
  if "$@" >"$work/output" 2>&1 </dev/null; then
    ((passed += 1))
    echo "ok     $name ($((SECONDS - start)) s)"
  else
    ((failed += 1))
    echo "FAILED $name ($((SECONDS - start)) s)"
    tail -n 15 "$work/output" | sed 's/^/       /'
  fi
}

revision="$(git rev-parse --short=12 HEAD 2>/dev/null || echo test)"
version="$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/base/version.h)"
context="$work/context"
mkdir -p "$context"
cp -r --parents deploy/image tools/install_packages.sh tools/packages.txt "$context/"

programs_of_build() {
  # As a release: only what is linked is made anew for another commit.
  bazel build --color=no --curses=no --noshow_progress --stamp --embed_label="$revision" \
    //server:sangam-server //worker:sangam-worker //client:sangam //tests/cuda_on_cpu:sangam-worker || return 1
  deploy/image/make_root.sh "$context/prebuilt" bazel-bin/server/sangam-server bazel-bin/worker/sangam-worker \
    bazel-bin/client/sangam || return 1
  # No GPU here: the worker that computes on the stand-in for CUDA.
  deploy/image/make_root.sh "$context/prebuilt-cuda" bazel-bin/tests/cuda_on_cpu/sangam-worker
}
# Whether the sources that .dockerignore lets into the image are all that the programs are built from, perhaps without
# one folder of them.
sources_suffice() {
  local without="${1:-nothing}" line rc=0
  rm -rf "$work/sources"
  mkdir "$work/sources"
  while read -r line; do
    if [[ "$line" == '!/'* && "$line" != '!/prebuilt'* && "$line" != "!/$without" ]]; then
      cp -r --parents "${line#!/}" "$work/sources/" || return 1
    fi
  done <.dockerignore
  cd "$work/sources" || return 1
  bazel --max_idle_secs=60 build --nobuild --color=no --curses=no --noshow_progress \
    //server:sangam-server //worker:sangam-worker //client:sangam || rc=1
  cd "$OLDPWD" || return 1
  return "$rc"
}
build_image() {
  local target="$1"
  timeout 400 "${buildah_command[@]}" bud --quiet --isolation chroot --file deploy/Dockerfile --target "$target" \
    --build-arg BASE_IMAGE="$base" --build-arg CUDA_IMAGE="$base" --build-arg BINARIES=prebuilt \
    --build-arg REVISION="$revision" --tag "localhost/sangam-$target:$tag" "$context"
}
# fact TARGET FILTER EXPECTED: what the image says of itself.
fact() {
  local found
  found="$(buildah_here inspect --type image "localhost/sangam-$1:$tag" | jq -r ".OCIv1.config$2")"
  if [[ "$found" != "$3" ]]; then
    echo "$2: found $found, expected $3"
    return 1
  fi
}
# inside CONTAINER SECONDS COMMAND...: as the image's user.
inside() {
  local container="$1" seconds="$2"
  shift 2
  timeout "$seconds" "${buildah_command[@]}" run --isolation chroot --volume "$PWD/deploy/jobs:/jobs:ro" \
    --volume /usr/share/datasets/fashion-mnist:/data:ro "$container" "$@"
}
# says EXPECTED COMMAND...: its output has this text.
says() {
  local expected="$1"
  shift
  "$@" >"$work/said" 2>&1
  local rc=$?
  cat "$work/said"
  ((rc == 0)) && grep -qF -- "$expected" "$work/said"
}
fails() {
  ! "$@"
}

check "the programs build and their libraries are found" programs_of_build
check "the sources that go into it suffice to build them" sources_suffice
check "a folder that is left out is seen" fails sources_suffice proto
(cd "$work/sources" && bazel shutdown) >/dev/null 2>&1
check "the image cpu builds" build_image cpu
if ((failed)); then
  echo "$passed passed, $failed failed"
  exit 1
fi
check "it runs as uid 10001" fact cpu .User 10001:10001
check "it stops by SIGTERM" fact cpu .StopSignal SIGTERM
check "it names its version" fact cpu '.Labels["org.opencontainers.image.version"]' "$version"
check "it names its revision" fact cpu '.Labels["org.opencontainers.image.revision"]' "$revision"
check "a wrong fact is seen" fails fact cpu .User root

cpu="$(buildah_here from --pull-never "localhost/sangam-cpu:$tag")"
containers+=("$cpu")
for program in sangam-server sangam-worker; do
  check "$program is version $version" says " $version (" inside "$cpu" 20 "/usr/local/bin/$program" --version
  check "$program is of this commit" says ", commit $revision" inside "$cpu" 20 "/usr/local/bin/$program" --version
done
check "the client is version $version" says "$version" inside "$cpu" 20 /usr/local/bin/sangam --version
check "the user is not root" says "uid=10001" inside "$cpu" 20 id
check "there are no compilers, sources or build tools in it" inside "$cpu" 20 bash -c \
  '! command -v gcc bazel protoc && test ! -e /src && test ! -e /image'
check "every library lists its package" inside "$cpu" 20 bash -c \
  'grep -q ^libgrpc++ /usr/share/doc/sangam/sangam-server.packages && test -s /usr/share/doc/sangam/copyright/libgrpc++1.51'
check "a folder that the image lacks is seen" fails inside "$cpu" 20 test -d /usr/local/share/sangam
check "it trains the main job" says "SUCCEEDED" inside "$cpu" 90 /usr/local/bin/sangam run /jobs/fashion_mnist_mlp.textproto \
  --workers=2 --servers=1 --threads=1 --data_root=/data --out=/tmp/out --set steps=100
tail -n 1 "$work/said"
# Of what lies above the base.
buildah_here run --isolation chroot --user root "$cpu" du -sm /usr/local 2>/dev/null | awk '{ print "image: " $1 " MB above the base" }'

check "the image cuda builds" build_image cuda
cuda="$(buildah_here from --pull-never "localhost/sangam-cuda:$tag")"
containers+=("$cuda")
check "the image cuda runs as uid 10001" fact cuda .User 10001:10001
check "its worker trains with --backend=cuda" says "SUCCEEDED" inside "$cuda" 90 /usr/local/bin/sangam run \
  /jobs/fashion_mnist_mlp.textproto --workers=1 --servers=1 --threads=1 --backend=cuda --data_root=/data --out=/tmp/out --set steps=10

echo "$passed passed, $failed failed"
((failed == 0))
