#!/bin/bash
# Tests of a GPU machine, from a folder that tests/device/pack.sh made: whether every operation of the CUDA backend is
# right, and whether jobs end with the same weights however they are spread. It takes less than 6 minutes.
#
#   ./run.sh [--out=DIR]
#
#   --out=DIR    where logs and results go; default: a folder in $TMPDIR or /tmp, which stays
#
# Needed here: a GPU with its driver, and the CUDA toolkit's libraries, in $CUDA_HOME, /usr/local/cuda or where the
# loader looks. The last lines are a table and "N passed, N failed, N skipped"; the exit status is 0 when nothing failed.
set -uo pipefail

out=""
for argument in "$@"; do
  case "$argument" in
    --out=?*) out="${argument#--out=}" ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "run.sh: unknown argument '$argument'; see --help" >&2
      exit 2
      ;;
  esac
done
if [[ -n "$out" ]]; then mkdir -p "$out" && out="$(cd "$out" && pwd)"; else out="$(mktemp -d)"; fi
pack="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$out/log" "$out/jobs"
kind="$(sed -n 's/^kind=//p' "$pack/pack.txt")"

# All of it together; what has no time left counts as failed.
deadline=$((SECONDS + 350))

unpacked="$(mktemp -d)"
trap 'rm -rf "$unpacked"' EXIT
tar -C "$unpacked" -xzf "$pack/programs.tar.gz" || exit 1
cuda="${CUDA_HOME:-/usr/local/cuda}"
# run PROGRAM ARGUMENTS...: with the libraries of the pack, which other programs should not see.
run() {
  env LD_LIBRARY_PATH="$unpacked/lib:$cublas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}
# The same in the place of a process in the background, so that $! is the program's.
start() {
  exec env LD_LIBRARY_PATH="$unpacked/lib:$cublas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}
export -f run start
# The toolkit's libraries lie beside it, or where a package of another kind put them.
cublas="$cuda/lib64"
if [[ ! -e "$cublas/libcublasLt.so.13" ]] && ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt\.so\.13'; then
  found="$(find /usr/local /opt /usr/lib -name libcublasLt.so.13 -print -quit 2>/dev/null)"
  if [[ -n "$found" ]]; then cublas="$(dirname "$found")"; fi
fi
export unpacked cuda cublas pack out

if [[ "$kind" != stand-in ]]; then
  # Without these no program starts, and each check would say so at length.
  missing="$(run ldd "$unpacked/bin/conformance_test" "$unpacked/bin/gpu_bench" | awk '/not found/ { print $1 }' | sort -u)"
  if [[ -n "$missing" ]]; then
    echo "run.sh: the loader does not find ${missing//$'\n'/ }" >&2
    echo "run.sh: looked in $cublas, \$LD_LIBRARY_PATH and its own places; set CUDA_HOME to a toolkit that has them" >&2
    exit 1
  fi
fi

names=()
verdicts=()
times=()
notes=()
passed=0
failed=0
skipped=0

record() {
  names+=("$1")
  verdicts+=("$2")
  times+=("$3")
  notes+=("$4")
  case "$2" in
    passed) ((passed += 1)) ;;
    skipped) ((skipped += 1)) ;;
    *) ((failed += 1)) ;;
  esac
  printf '=== %-28s %-8s %4d s  %s\n' "$@"
}

limit=0

# check NAME SECONDS COMMAND...: passes when the command (a function) ends with 0 within its time, which it finds in
# $limit. It may leave a note in $out/note; status 77 means skipped.
check() {
  local name="$1" seconds="$2" start=$SECONDS left=$((deadline - SECONDS)) rc=0 verdict
  shift 2
  local log="$out/log/$name.log"
  rm -f "$out/note"
  if ((left < seconds)); then seconds=$left; fi
  if ((left <= 0)); then
    record "$name" FAILED 0 "no time left"
    return
  fi
  limit=$seconds timeout --kill-after=10 "$seconds" \
    bash -c 'set -uo pipefail; "$@"' bash "$@" >"$log" 2>&1 </dev/null || rc=$?
  case $rc in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    124 | 137) verdict=STOPPED ;;
    *) verdict=FAILED ;;
  esac
  record "$name" "$verdict" $((SECONDS - start)) "$(cat "$out/note" 2>/dev/null)"
  if [[ $verdict == FAILED || $verdict == STOPPED ]]; then tail -n 25 "$log" | sed 's/^/    /'; fi
}

note() { echo "$*" >"$out/note"; }
export -f note

# Every CUDA case of the conformance suite that is not in $2, or every one in $1.
cuda_cases() {
  run "$unpacked/bin/conformance_test" --gtest_list_tests --gtest_filter="*cuda*${2:+-$2}" |
    awk -v every="$1" '/^[^ ]/ { suite = $1; next } n++ % every == 0 { printf "%s%s:", suite, $1 }'
}
export -f cuda_cases

# A machine that shows no GPU to the program gets a skipped test of it, which is no success here.
conformance() {
  local filter='*cuda*' log="$out/conformance.txt"
  if (($1 > 1)); then filter="$(cuda_cases "$1")"; fi
  run "$unpacked/bin/conformance_test" --gtest_brief=0 --gtest_filter="$filter" >"$log" 2>&1
  local rc=$?
  grep -v -E '^\[( RUN|       OK)' "$log"
  note "$(grep -c '^\[       OK' "$log") cases right, $(grep -c '^\[  FAILED  \].* ms)$' "$log") wrong"
  if grep -q '^\[  SKIPPED' "$log"; then return 1; fi
  return $rc
}
export -f conformance

# The coordinator shows the worker's device.
cluster() {
  local folder="$out/cluster" server worker rc=1
  mkdir -p "$folder"
  rm -f "$folder"/*.ready
  start "$unpacked/bin/sangam-server" --listen=127.0.0.1:0 --ready_file="$folder/server.ready" &
  server=$!
  for _ in $(seq 100); do if [[ -s "$folder/server.ready" ]]; then break; fi; sleep 0.1; done
  local address
  address="$(head -n 1 "$folder/server.ready")"
  start "$unpacked/bin/sangam-worker" --backend=cuda --name=gpu --coordinator="$address" --ready_file="$folder/worker.ready" &
  worker=$!
  for _ in $(seq 300); do if [[ -s "$folder/worker.ready" ]]; then break; fi; sleep 0.1; done
  if run "$unpacked/bin/sangam" cluster --coordinator="$address" | tee "$folder/cluster.txt" | grep -q '^WORKER'; then rc=0; fi
  cat "$folder/cluster.txt"
  note "$(tail -n 1 "$folder/cluster.txt")"
  kill $worker $server
  wait $worker $server
  return $rc
}
export -f cluster

# train NAME JOB ARGUMENTS...: the job's weights end up in $out/jobs/NAME.
train() {
  local name="$1" job="$2"
  shift 2
  run "$unpacked/bin/sangam" run "$pack/jobs/$job.textproto" --backend=cuda --servers=1 --data_root="$pack/data" \
    --out="$out/jobs/$name" --overwrite "$@" >"$out/jobs/$name.line"
  local rc=$?
  note "$(sed 's/^job [^ ]* //' "$out/jobs/$name.line")"
  if ((rc)); then
    tail -n 20 "$out/jobs/$name"/logs/*.log
    return $rc
  fi
  sha256sum <"$out/jobs/$name/model.safetensors" | cut -c1-64 >"$out/jobs/$name.sum"
}
# same NAME OTHER: two jobs ended with the same weights.
same() {
  local one other
  one="$(cat "$out/jobs/$1.sum")" && other="$(cat "$out/jobs/$2.sum")" || return 1
  note "${one:0:16} ${other:0:16}"
  [[ -n "$one" && "$one" == "$other" ]]
}
export -f train same

# A worker that gives its device one operation after another.
export plain_worker="$unpacked/bin/sangam-worker-without-graphs"
printf '#!/bin/bash\nexec "%s" --cuda_graphs=off "$@"\n' "$unpacked/bin/sangam-worker" >"$plain_worker"
chmod +x "$plain_worker"

# spread NAME JOB ARGUMENTS...: one worker; the same without CUDA graphs; two workers on the one GPU; a pipeline of two.
spread() {
  local name="$1" job="$2"
  shift 2
  check "$name.1-worker" 60 train "$name-1" "$job" "$@" --workers=1 --set strategy=DATA_PARALLEL
  check "$name.no-graphs" 60 train "$name-n" "$job" "$@" --workers=1 --set strategy=DATA_PARALLEL --worker_binary="$plain_worker"
  check "$name.2-workers" 60 train "$name-2" "$job" "$@" --workers=2 --set strategy=DATA_PARALLEL
  check "$name.2-stages" 60 train "$name-s" "$job" "$@" --workers=2 --set strategy=MODEL_PARALLEL
  check "$name.no-graphs.same" 5 same "$name-1" "$name-n"
  check "$name.2-workers.same" 5 same "$name-1" "$name-2"
  check "$name.2-stages.same" 5 same "$name-1" "$name-s"
}

# sanitize TOOL EVERY: one in EVERY of the conformance cases that have kernels of our own. That many are not worth a
# failure when they take too long: without a fault until then it is skipped.
sanitize() {
  local sanitizer
  sanitizer="$(PATH="$PATH:$cuda/bin:$cuda/compute-sanitizer" command -v compute-sanitizer)"
  if [[ -z "$sanitizer" ]]; then
    note "no compute-sanitizer here"
    return 77
  fi
  # Calls that are meant to fail, for memory that is not there, are not faults.
  local options=()
  if [[ "$1" == memcheck ]]; then options=(--report-api-errors no); fi
  # To be there when it ends.
  local seconds=$((limit > 25 ? limit - 15 : 10))
  run timeout --kill-after=5 "$seconds" "$sanitizer" --tool "$1" "${options[@]}" --error-exitcode 3 \
    "$unpacked/bin/conformance_test" --gtest_brief=0 --gtest_filter="$(cuda_cases "$2" '*_Gemm*')" >"$out/sanitizer.txt" 2>&1
  local rc=$? right
  right="$(grep -c '^\[       OK' "$out/sanitizer.txt")"
  grep -v -E '^\[( RUN|       OK)' "$out/sanitizer.txt"
  if grep -q 'Device not supported' "$out/sanitizer.txt"; then
    note "compute-sanitizer does not support this machine"
    return 77
  fi
  if ((rc == 124 || rc == 137)); then
    note "not done in $seconds s; $right cases right until then"
    if grep -q -E '^=========.*(Invalid|Misaligned|out of bounds|hazard|Race reported|exception)' "$out/sanitizer.txt"; then return 1; fi
    return 77
  fi
  note "$right cases right, $(grep -o 'ERROR SUMMARY.*\|RACECHECK SUMMARY.*' "$out/sanitizer.txt" | tail -n 1)"
  return "$rc"
}
export -f sanitize

bench() {
  run "$unpacked/bin/gpu_bench" "$@"
}
export -f bench

echo "=== $(sed -n 's/^version=//p' "$pack/pack.txt") ($kind), logs in $out"
uname -srm
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap,clocks.max.sm,power.limit --format=csv
fi
if [[ -x "$cuda/bin/nvcc" ]]; then "$cuda/bin/nvcc" --version | tail -n 2; fi

if [[ "$kind" == stand-in ]]; then
  # The same run in small: no figure of it says anything about a GPU.
  check cluster 60 cluster
  check conformance 120 conformance 12
  small=(--set evaluation.off=true --set steps=2 --set 'batch={size: 8 micro_batches: 2 shares: 2}')
  spread mlp fashion_mnist_mlp "${small[@]}"
  spread cnn fashion_mnist_cnn "${small[@]}"
  spread gpt gpt_text "${small[@]}" --set steps=1 --set batch.size=2
  check benchmarks 60 bench --small
else
  check cluster 60 cluster
  check conformance 120 conformance 1
  spread mlp fashion_mnist_mlp --set epochs=2
  spread mlp-bf16 fashion_mnist_mlp --set epochs=1 --set precision=BF16
  spread mlp-tf32 fashion_mnist_mlp --set epochs=1 --set precision=TF32
  spread cnn fashion_mnist_cnn --set epochs=2
  spread gpt gpt_text --set steps=60
  check benchmarks 90 bench
  # Last: what they find takes longest, and they are the ones that can do with what is left of the time.
  check memcheck 60 sanitize memcheck 8
  check racecheck 60 sanitize racecheck 16
fi
if [[ -s "$out/log/benchmarks.log" ]]; then
  echo "=== benchmarks"
  cat "$out/log/benchmarks.log"
fi

printf '\n%-28s %-8s %6s  %s\n' CHECK VERDICT TIME NOTE
for i in "${!names[@]}"; do
  printf '%-28s %-8s %4d s  %s\n' "${names[i]}" "${verdicts[i]}" "${times[i]}" "${notes[i]}"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
