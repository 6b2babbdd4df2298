#!/bin/bash
# Packs what a GPU machine needs to run tests/device/run.sh: programs, their libraries, jobs and data. That machine
# needs a driver and the CUDA toolkit (its libraries), nothing else. See docs/gpu.md.
#
#   tests/device/pack.sh [--stand-in] FOLDER
#
#   FOLDER       made anew; at most 60 MB
#   --stand-in   programs that compute on the stand-in for CUDA: the same run on a machine without a GPU
set -euo pipefail

stand_in=0
folder=""
for argument in "$@"; do
  case "$argument" in
    --stand-in) stand_in=1 ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*)
      echo "pack.sh: unknown argument '$argument'; see --help" >&2
      exit 2
      ;;
    *) folder="$argument" ;;
  esac
done
if [[ -z "$folder" ]]; then
  echo "pack.sh: no FOLDER given; see --help" >&2
  exit 2
fi
mkdir -p "$(dirname "$folder")"
folder="$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")"
if [[ -e "$folder" && ! -e "$folder/pack.txt" ]]; then
  echo "pack.sh: $folder exists and is no earlier pack" >&2
  exit 1
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly limit_bytes=$((60 * 1000 * 1000))
readonly train_images=6000 test_images=1000
readonly fashion=/usr/share/datasets/fashion-mnist
pods="$(find /usr/share/perl -name perlintro.pod -printf '%h\n' 2>/dev/null | sort | tail -n 1)"
for needed in "$fashion/train-images-idx3-ubyte.gz" "${pods:-/usr/share/perl/.../pod}/perlretut.pod"; do
  if [[ ! -r "$needed" ]]; then
    echo "pack.sh: no $needed: install dataset-fashion-mnist and perl-doc (tools/install_packages.sh data)" >&2
    exit 1
  fi
done

# NAME=LABEL: what is built, and what it is called in the pack.
if ((stand_in)); then
  options=()
  kind=stand-in
  worker=//tests/cuda_on_cpu:sangam-worker
  conformance=//tests/worker/backend/conformance:cuda_conformance_test_on_cpu
  bench=//tests/bench:gpu_on_cpu
else
  options=(--config=cuda)
  kind=cuda
  worker=//worker:sangam-worker
  conformance=//tests/worker/backend/conformance:cuda_conformance_test
  bench=//tests/bench:gpu
fi
programs=(
  "sangam=//client:sangam"
  "sangam-server=//server:sangam-server"
  "sangam-worker=$worker"
  "conformance_test=$conformance"
  "gpu_bench=$bench"
)

bazel build "${options[@]}" "${programs[@]#*=}"

rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/data"
# First of all: by it the next run knows that the folder is one of ours.
{
  echo "kind=$kind"
  echo "version=$(git describe --always --dirty 2>/dev/null || echo unknown)"
} >"$folder/pack.txt"
for program in "${programs[@]}"; do
  label="${program#*=}"
  path="bazel-bin/${label#//}"
  install -m 755 "${path/://}" "$folder/bin/${program%%=*}"
  strip "$folder/bin/${program%%=*}"
done

# All shared libraries but those that must be the other machine's: glibc's, CUDA's and the driver's.
foreign='^(linux-vdso|ld-linux-.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libcublas|libcublasLt|libnvidia-.*)\.so'
ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r library; do
  if [[ ! "$(basename "$library")" =~ $foreign ]]; then cp -L "$library" "$folder/lib/"; fi
done
# A third of the size. run.sh unpacks it.
tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 -czf "$folder/programs.tar.gz" bin lib
rm -r "${folder:?}/bin" "${folder:?}/lib"

cp -r deploy/jobs "$folder/jobs"
for set in train t10k; do
  items=$train_images
  if [[ "$set" == t10k ]]; then items=$test_images; fi
  for file in "$set-images-idx3-ubyte.gz" "$set-labels-idx1-ubyte.gz"; do
    tests/device/cut_idx.py "$items" "$fashion/$file" "$folder/data/$file"
  done
done
cp -L "$pods"/perl[a-e]*.pod "$pods/perlintro.pod" "$pods/perlretut.pod" "$folder/data/"
cp tests/device/run.sh "$folder/run.sh"
chmod -R u+w "$folder"

bytes="$(du -sb "$folder" | cut -f1)"
printf 'pack.sh: %s: %s, %d.%d MB\n' "$folder" "$kind" $((bytes / 1000000)) $((bytes / 100000 % 10))
if ((bytes > limit_bytes)); then
  echo "pack.sh: more than $((limit_bytes / 1000000)) MB:" >&2
  du -ab "$folder" | sort -rn | head -n 12 >&2
  exit 1
fi
