#!/bin/bash
# The completion scripts, in the shells that are there.
set -u
cd deploy/share || exit 1
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

bash -n sangam.bash || fail "bash does not parse its script"
# Only a completion that readline runs may call it.
compopt() { :; }
# shellcheck disable=SC1091
source ./sangam.bash
[[ "$(complete -p sangam)" == "complete -F _sangam sangam" ]] || fail "complete -p: $(complete -p sangam)"

# completes EXPECTED WORD...: what bash would offer for the last word, sorted. Words are cut as readline cuts them.
completes() {
  local expected="$1"
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _sangam
  local found
  found="$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' ')"
  [[ "$found" == "$expected" ]] || fail "'$*' gives '$found', expected '$expected'"
}

completes "submit" sangam sub
completes "checkpoint" sangam ch
completes "list logs" sangam l
completes "--help" sangam --h
completes "list logs" sangam help l
completes "--output=" sangam list --ou
completes "json table" sangam list --output = ""
completes "json table" sangam list --output =
completes "json" sangam list --output = j
completes "json" sangam list --output j
completes "list verify" sangam checkpoint ""
completes "verify" sangam checkpoint v
completes "" sangam checkpoint verify ""
completes "list" sangam checkpoint --output = json l
completes "drain size undrain" sangam cluster ""
completes "new" sangam tokens ""
completes "bash fish zsh" sangam completion ""
completes "" sangam cancel ""
completes "" sangam nosuchverb --
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/sub"
touch "$folder/job.textproto"
completes "$folder/job.textproto" sangam submit "$folder/jo"
completes "$folder/job.textproto" sangam cluster size "$folder/jo"
completes "$folder/job.textproto" sangam doctor "$folder/jo"
completes "$folder/job.textproto $folder/sub" sangam export 1 --out = "$folder/"
completes "$folder/sub" sangam run x --data_root = "$folder/"
[[ "$(COMP_WORDS=(sangam run --); COMP_CWORD=2; _sangam; printf '%s\n' "${COMPREPLY[@]}")" == *--data_root=* ]] ||
  fail "run has no --data_root"

for shell in zsh fish; do
  script=_sangam
  [[ $shell == fish ]] && script=sangam.fish
  if command -v "$shell" >/dev/null; then
    "$shell" -n "$script" || fail "$shell does not parse its script"
  else
    echo "skipped: $shell is not installed"
  fi
done
if command -v fish >/dev/null; then
  offers="$(fish -c "source sangam.fish; complete -C 'sangam list --output '" | cut -f 1 | paste -sd ' ')"
  [[ "$offers" == "json table" || "$offers" == "table json" ]] || fail "fish offers '$offers' for --output"
  offers="$(fish -c "source sangam.fish; complete -C 'sangam checkpoint list --li'" | cut -f 1)"
  [[ -z "$offers" ]] || fail "fish offers '$offers', a flag of list, for checkpoint list"
fi
((failures == 0)) && echo "completion: ok"
exit $((failures > 0))
