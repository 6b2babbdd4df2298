#!/bin/bash
# From a fresh clone to a trained network, on one Debian 12 machine.
set -euo pipefail

usage() {
  cat <<'END'
Usage: deploy/quickstart.sh [--out=DIR] [--skip_install]

Builds Sangam and trains a small network on Fashion-MNIST (60,000 images of clothes, from a Debian package) with one
parameter server and two workers, all on this machine. In three steps:
  1. installs the Debian packages that are missing (tools/packages.txt; asks sudo when you are not root)
  2. builds sangam-server, sangam-worker and the client
  3. starts them, trains, and writes the weights

  --out=DIR        where the weights and logs go (default: ./quickstart-out)
  --skip_install   do not look at the packages
  --help           this text
END
}

start_dir="$PWD"
out="quickstart-out"
# A folder of our own may be written again; one that somebody named may hold something dear.
overwrite=(--overwrite)
install=1
for argument in "$@"; do
  case "$argument" in
    --out=?*)
      out="${argument#--out=}"
      overwrite=()
      ;;
    --skip_install) install=0 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "quickstart: unknown argument '$argument'" >&2
      usage >&2
      exit 2
      ;;
  esac
done
[[ "$out" == /* ]] || out="$start_dir/$out"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data_root=/usr/share/datasets/fashion-mnist

title() {
  printf '\n[%s] %s\n' "$1" "$2"
  step_start=$SECONDS
}
took() {
  printf '[%s] done in %d s\n' "$1" $((SECONDS - step_start))
}
stop() {
  echo "quickstart: $1" >&2
  exit 1
}

title 1/3 "Debian packages"
if ((install)); then
  tools/install_packages.sh build data || stop "the packages above are needed; install them and start again"
fi
[[ -r "$data_root/train-images-idx3-ubyte.gz" ]] ||
  stop "no data set in $data_root: install the package dataset-fashion-mnist"
took 1/3

title 2/3 "Building (the first time takes some minutes; later builds take seconds)"
bazel build //server:sangam-server //worker:sangam-worker //client:sangam ||
  stop "the build failed; the first error above tells why"
took 2/3

title 3/3 "Training on one server and two workers"
mkdir -p "$out"
bazel-bin/client/sangam run deploy/jobs/fashion_mnist_mlp.textproto \
  --workers=2 --servers=1 --threads=1 --data_root="$data_root" --out="$out" "${overwrite[@]}" ||
  stop "the training failed; logs, if any, lie in $out"
took 3/3

printf '\nThe trained weights:\n'
find "$out" -type f \( -name '*.safetensors' -o -name '*.npz' \) -printf '  %p  (%s bytes)\n' | sort
printf 'All files of the run: %s\n' "$out"
printf 'Try the job with other numbers of workers: the weights come out the same, bit for bit.\n'
printf '  bazel-bin/client/sangam run deploy/jobs/fashion_mnist_mlp.textproto --workers=1 --servers=1 --data_root=%s --out=one-worker-out\n' \
  "$data_root"
