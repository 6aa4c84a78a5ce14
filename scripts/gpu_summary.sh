#!/bin/bash
# What came out of scripts/gpu_check, as text and JSON: scripts/gpu_summary.sh DIR. Exit code: 0 all
# is well, 1 a stage failed, 3 all ran, but a figure is below its target.
set -u
case ${1:-} in
  -h | --help) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --version) exec "$(dirname "$0")/version" scripts/gpu_summary.sh ;;
esac
if [ $# != 1 ] || [ ! -d "$1" ]; then echo "usage: scripts/gpu_summary.sh DIR" >&2; exit 2; fi
out=$1

# what, least, where: a kernel (share of the device-to-device copy of the same run), or a method of the
# allreduce (speed-up). The targets: 1 GiB of f32 for the kernels, 64 MiB for the allreduce.
readonly TARGETS="onebit encode + feedback|0.90|kernel|onebit/encode+feedback/f32/cuda/1048576KiB
onebit decode-add|0.92|kernel|onebit/decode+add/f32/cuda/1048576KiB
bf16 encode|0.92|kernel|bf16/encode/f32/cuda/1048576KiB
bf16 decode|0.92|kernel|bf16/decode/f32/cuda/1048576KiB
int8 encode + feedback|0.90|kernel|int8/encode+feedback/f32/cuda/1048576KiB
mxfp8 encode + feedback|0.90|kernel|mxfp8/encode+feedback/f32/cuda/1048576KiB
mxfp4 encode + feedback|0.90|kernel|mxfp4/encode+feedback/f32/cuda/1048576KiB
threshold encode + feedback|0.70|kernel|threshold/encode+feedback/f32/cuda/1048576KiB
adaptive encode + feedback|0.70|kernel|adaptive/encode+feedback/f32/cuda/1048576KiB
top-k 1 % select + compact|0.60|kernel|topk/encode/f32/cuda/1048576KiB
threshold decode|0.60|kernel|threshold/decode/f32/cuda/1048576KiB
top-k decode|0.60|kernel|topk/decode/f32/cuda/1048576KiB
64 MiB, 2 ranks on one GPU|5|allreduce|onebit"

# A counter of a case in Google Benchmark's JSON, which has one line per counter.
counter() {  # counter CASE NAME
  [ -r "$out/kernels.json" ] || return 0
  awk -v wanted="$1" -v counter="$2" '
    function value(line) { sub(/^[^:]*: */, "", line); gsub(/[",]/, "", line); return line }
    /"name":/ { name = value($0); sub(/\/(iterations|manual_time).*/, "", name); sub(/\/min_time:.*/, "", name) }
    name == wanted && index($0, "\"" counter "\":") { print value($0); exit }' "$out/kernels.json"
}

# The speed-up that the launches of mpiq-bench printed. It is the thirteenth word, because a size has two
# words and a time has its unit. It is paired, against mpi of the same launch; times of different launches are
# never divided by each other.
speedup() {  # speedup METHOD
  cat "$out"/allreduce-[0-9].txt 2>/dev/null | awk -v method="$1" '!/^#/ && index($6, method) == 1 { print $13; exit }'
}

verdict() {  # verdict FOUND LEAST
  [ -n "$1" ] || { echo "not measured"; return; }
  awk -v found="$1" -v least="$2" 'BEGIN { print (found + 0 >= least + 0) ? "pass" : "miss" }'
}

fake=false
if grep -q '^FAKE GPU' "$out/machine.txt"; then fake=true; fi

missed=0 failed=0 rows="" json_rows=""
while IFS='|' read -r what least kind where; do
  if [ "$kind" = kernel ]; then found=$(counter "$where" of_copy); else found=$(speedup "$where"); fi
  if [ $fake = true ]; then found="" judged="fake GPU"; else judged=$(verdict "$found" "$least"); fi
  case $judged in pass | "fake GPU") ;; *) missed=1 ;; esac
  shown=${found:+$(awk -v x="$found" 'BEGIN { printf "%.3g", x }')}
  rows+=$(printf '%-34s %8s %8s  %s' "$what" "$least" "${shown:--}" "$judged")$'\n'
  json_rows+="${json_rows:+,}
    {\"what\": \"$what\", \"kind\": \"$kind\", \"where\": \"$where\", \"least\": $least, \"found\": ${shown:-null}, \"verdict\": \"$judged\"}"
done <<<"$TARGETS"

json_stages="" stages=""
while IFS=$'\t' read -r name status seconds words; do
  case $status in passed | skipped) ;; *) failed=1 ;; esac
  if [ "$words" = "the time was over" ]; then failed=1; fi
  stages+=$(printf '%-12s %-8s %4s s  %s' "$name" "$status" "$seconds" "$words")$'\n'
  json_stages+="${json_stages:+,}
    {\"name\": \"$name\", \"status\": \"$status\", \"seconds\": $seconds}"
done <"$out/stages.tsv"

{
  cat "$out/machine.txt"
  printf '\n%-34s %8s %8s\n' "target" "least" "found"
  printf '%s\nkernels: share of the device-to-device copy, in bytes that must move; allreduce: times as fast as dense, staged\n' "$rows"
  printf '\n%s' "$stages"
} | tee "$out/summary.txt"

gpu=$(sed -n '/^name, /{n;p;}' "$out/machine.txt" | head -n 1 | tr -cd '[:alnum:] .,-')
printf '{\n  "gpu": "%s",\n  "fake": %s,\n  "targets": [%s\n  ],\n  "stages": [%s\n  ]\n}\n' "$gpu" $fake "$json_rows" "$json_stages" >"$out/summary.json"
rm -f "$out/stages.tsv"
if [ $failed = 1 ]; then exit 1; fi
if [ $missed = 1 ]; then exit 3; fi
