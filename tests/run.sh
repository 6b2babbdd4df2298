#!/bin/bash
# The whole test suite, from an empty Debian 12 machine to a verdict:
#
#   1 packages   installs what is missing (tools/packages.txt); needs root or sudo only then
#   2 check      formatters and linters (tools/check)
#   3 build      every target, with GCC
#   4 cuda       every target for GPUs too, where the CUDA toolkit is; what is the same without CUDA is not built again
#   5 test       every test, the ones with real processes included
#   6 device     what a GPU machine is tested with (tests/device), in small, on the stand-in for CUDA
#   7 deploy     manifests, chart, alerts, dashboard, Dockerfile, without a cluster (tests/deploy/run.sh)
#   8 image      the container image is built and trains (tests/deploy/image.sh)
#   9 clang      pure logic and runtime compiled by the second compiler: includes without a dependency, members
#                without their lock
#  10 asan       pure logic under the address and undefined-behaviour sanitizers
#  11 tsan       runtime, and what of the common code has threads, under the thread sanitizer
#
#   tests/run.sh [STEP...]     only these steps, in the order above
#
# The last line is "N passed, N failed": the test cases of all steps, where a step that fails without a failed test
# case counts as one. The exit status is 0 when nothing failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME

# A hang is a failure: each step has its own limit, and all of them together this one.
deadline=$((SECONDS + 43 * 60))

known_steps=" packages check build cuda test device deploy image clang asan tsan "
steps=" ${*:-$known_steps} "
for step in $steps; do
  if [[ "$known_steps" != *" $step "* ]]; then
    echo "run.sh: no step '$step' (there are:$known_steps)" >&2
    exit 2
  fi
done

passed=0
failed=0
failed_steps=()
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Tests whose subject is pure or at least free of gRPC, as far as the folders exist.
existing() {
  local folder
  for folder in "$@"; do
    if [[ -d "$folder" && -n "$(find "$folder" -name BUILD -print -quit)" ]]; then echo "//$folder/..."; fi
  done
}
mapfile -t pure < <(existing tests/common tests/server/core tests/worker/core)
# Of the common code what has threads or locks; the rest is pure, and the thread sanitizer has nothing to see there.
mapfile -t threaded < <(existing tests/common/base tests/common/data tests/common/metrics tests/common/security)
mapfile -t runtime < <(existing tests/server/runtime tests/worker/runtime)
# What a sanitizer or a second compiler adds nothing to: real processes and gRPC, whose libraries are not instrumented.
filters=-e2e,-rpc,-nosan,-gpu

# limited SECONDS COMMAND...: runs the command with its own limit or what is left of the deadline.
limited() {
  local seconds="$1" left=$((deadline - SECONDS))
  shift
  if ((left <= 0)); then
    echo "run.sh: the time for the whole suite is used up"
    return 124
  fi
  timeout --kill-after=30 $((seconds < left ? seconds : left)) "$@" </dev/null
}

# step NAME SECONDS COMMAND...: for a step that is right or wrong as a whole.
step() {
  local name="$1" start=$SECONDS rc=0
  local seconds="$2"
  shift 2
  if [[ "$steps" != *" $name "* ]]; then return; fi
  echo "=== $name"
  limited "$seconds" "$@" || rc=$?
  if ((rc)); then
    ((failed += 1))
    failed_steps+=("$name")
  fi
  finish "$name" "$rc" $((SECONDS - start)) "$seconds"
  return "$rc"
}

# test_step NAME SECONDS ARGUMENTS_OF_BAZEL_TEST...
test_step() {
  local name="$1" seconds="$2" start=$SECONDS rc=0 good=0 bad=0
  shift 2
  if [[ "$steps" != *" $name "* ]]; then return; fi
  echo "=== $name"
  # Every argument is an option: none of the folders exists yet.
  if [[ "$*" != *//* ]]; then
    finish "$name" 0 0 "$seconds"
    return
  fi
  local events="$work/$name.json"
  : >"$events"
  limited "$seconds" bazel test "${bazel_options[@]}" --keep_going --build_tests_only --build_event_json_file="$events" "$@" || rc=$?
  # 4: nothing to test after filtering, which is right while a folder has only tests of real processes.
  if ((rc == 4)) && [[ "$name" != test ]]; then rc=0; fi
  read -r good bad < <(tools/count_tests "$events") || { good=0; bad=0; }
  if ((rc != 0 && bad == 0)); then bad=1; fi
  ((passed += good, failed += bad))
  if ((bad)); then failed_steps+=("$name"); fi
  echo "$name: $good passed, $bad failed"
  finish "$name" $((bad ? (rc ? rc : 1) : 0)) $((SECONDS - start)) "$seconds"
}

# counted_step NAME SECONDS COMMAND...: its last line is "N passed, N failed".
counted_step() {
  local name="$1" seconds="$2" start=$SECONDS rc=0 good=0 bad=0
  shift 2
  if [[ "$steps" != *" $name "* ]]; then return; fi
  echo "=== $name"
  limited "$seconds" "$@" 2>&1 | tee "$work/$name.log"
  rc=${PIPESTATUS[0]}
  read -r good bad < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$work/$name.log") || { good=0; bad=0; }
  if ((rc != 0 && bad == 0)); then bad=1; fi
  ((passed += good, failed += bad))
  if ((bad)); then failed_steps+=("$name"); fi
  finish "$name" $((bad ? (rc ? rc : 1) : 0)) $((SECONDS - start)) "$seconds"
}

# cuda_step SECONDS: not every machine has the toolkit.
cuda_step() {
  local nvcc="${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"
  if [[ "$steps" != *" cuda "* ]]; then return; fi
  if [[ -x "$nvcc" ]]; then
    step cuda "$1" bazel build "${bazel_options[@]}" --config=cuda --keep_going //...
  else
    printf '=== cuda: skipped: there is no %s (CUDA_HOME names the CUDA toolkit)\n\n' "$nvcc"
  fi
}

finish() {
  local name="$1" rc="$2" took="$3" limit="$4" verdict=ok
  if ((rc == 124 || rc == 137)); then verdict="STOPPED, limit ${limit} s"; elif ((rc)); then verdict=FAILED; fi
  printf '=== %s: %s (%d min %02d s)\n\n' "$name" "$verdict" $((took / 60)) $((took % 60))
}

# One line per event instead of a moving picture when nobody looks at a terminal.
bazel_options=(--color=no --curses=no --show_progress_rate_limit=30 --noshow_loading_progress)
if [[ -t 1 ]]; then bazel_options=(); fi

step packages 900 tools/install_packages.sh
step check 900 tools/check
step build 1500 bazel build "${bazel_options[@]}" --keep_going //...
cuda_step 900
test_step test 1200 //...
# shellcheck disable=SC2016  # the inner shell expands it
step device 300 bash -c 'tests/device/pack.sh --stand-in "$0/pack" && "$0/pack/run.sh" --out="$0/device"' "$work"
# The first time longer: tools from npm, the image's base from Debian.
counted_step deploy 400 tests/deploy/run.sh
counted_step image 600 tests/deploy/image.sh
# Compiled, not linked and not run: what this compiler is here for, it says while it compiles.
step clang 900 bazel build "${bazel_options[@]}" --config=clang --keep_going --output_groups=compilation_outputs \
  --build_tag_filters="$filters" "${pure[@]}" "${runtime[@]}"
test_step asan 1000 --config=asan --config=ubsan --platform_suffix=-asan-ubsan --test_tag_filters="$filters" \
  "${pure[@]}"
test_step tsan 1000 --config=tsan --test_tag_filters="$filters" "${threaded[@]}" "${runtime[@]}"

printf 'total: %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
if ((${#failed_steps[@]})); then echo "failed steps: ${failed_steps[*]}"; fi
echo "$passed passed, $failed failed"
((failed == 0))
