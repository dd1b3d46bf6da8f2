#!/usr/bin/env bash
# The whole product on one GPU: builds the images, runs the agent `example` on a benchmark with a small model, checks that the gain is
# clear of zero, keeps the record, and measures what docs/performance.md tells.
#   MODEL=./SmolLM2-135M-Instruct DATA_DIR=./gsm8k scripts/gpu_proof.sh [images] [run] [record] [bench]     (default: all of them)
# OUT=./gpu-proof      where everything goes; a run whose report is there is not made again
# TASK=gsm8k TIMEOUT=600 GPU=<uuid, default: the first; `none`: on the CPU> LIMIT=<hidden items, default: all>
# PYTHON=python3       has the harness's packages and, for `bench`, torch
# HOST_SITES="DIR..."  no registry and no index here: images from the host's own files and these folders of packages (host_base.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

: "${MODEL:?name a model folder}" "${DATA_DIR:?name the folder with the data of the benchmark}"
OUT=${OUT:-gpu-proof} TASK=${TASK:-gsm8k} TIMEOUT=${TIMEOUT:-600} PYTHON=${PYTHON:-python3} HOST_SITES=${HOST_SITES:-} LIMIT=${LIMIT:-}
if [ -z "${GPU:-}" ]; then GPU=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -n 1); fi
export HARNESS_HOME=${HARNESS_HOME:-$PWD/.harness} HARNESS_ROOT=$PWD PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
if [ "$GPU" = none ]; then GPU=""; export HARNESS_DEVICE=cpu; else export HARNESS_DEVICE=gpu; fi
if [ -n "$HOST_SITES" ]; then export HARNESS_BASE_IMAGE=${HARNESS_BASE_IMAGE:-harness-host:local}; fi
mkdir -p "$OUT"
OUT=$(realpath "$OUT")

harness() { "$PYTHON" -m harness "$@"; }
say() { printf '== %s\n' "$*" >&2; }

images() {
    say "images"
    if [ -n "$HOST_SITES" ] && ! docker image inspect "$HARNESS_BASE_IMAGE" > /dev/null 2>&1; then
        # shellcheck disable=SC2086
        scripts/host_base.sh "$HARNESS_BASE_IMAGE" $HOST_SITES
    fi
    harness images
}

run() {
    say "run"
    local words=(--agent example --task "$TASK" --model "$MODEL" --data-dir "$DATA_DIR" --timeout "$TIMEOUT" --json)
    if [ -n "$GPU" ]; then words+=(--gpus "$GPU"); fi
    if [ -n "$LIMIT" ]; then words+=(--limit "$LIMIT"); fi
    if [ ! -s "$OUT/report.json" ]; then harness run "${words[@]}" > "$OUT/report.json"; fi
    "$PYTHON" - "$OUT/report.json" << 'PYTHON'
import json, sys

facts = json.load(open(sys.argv[1]))
scored = [one for one in facts["submissions"] if one["state"] == "scored"]
points, low, high = (facts[f"improvement_{name}"] for name in ("pct", "low_pct", "high_pct"))
print(f"{facts['run_id']}: {facts['verdict']}, {len(scored)} scored, improvement {points} [{low}, {high}]", file=sys.stderr)
assert facts["verdict"] == "graded", facts["verdict"]
assert len(scored) >= 2, f"{len(scored)} submissions were scored, two are wanted"
assert low is not None and low > 0, "the interval of the improvement is not clear of zero"
PYTHON
}

record() {
    say "record"
    local run_id
    run_id=$("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["run_id"])' "$OUT/report.json")
    harness export "$run_id" --out "$OUT"
    cp "$HARNESS_HOME/runs/$run_id/plan.json" "$HARNESS_HOME/runs/$run_id/agent.log" "$OUT/$run_id/"
    # From the request to the score: admission, waiting, and then the parts of scoring.
    harness sql --csv "SELECT s.number, e.load_seconds, e.generate_seconds, e.score_seconds,
      round((julianday(s.copied_at) - julianday(s.submitted_at)) * 86400, 2) AS admission_seconds,
      round((julianday(s.scoring_at) - julianday(s.copied_at)) * 86400, 2) AS wait_seconds,
      round((julianday(s.ended_at) - julianday(s.submitted_at)) * 86400, 2) AS total_seconds
      FROM submission s JOIN evaluation e ON e.id = s.evaluation_id WHERE s.run_id = '$run_id' ORDER BY s.number" > "$OUT/submissions.csv"
    harness sql --csv "SELECT at, cpu_pct, memory_mb, gpu_memory_mb, gpu_pct FROM resource_sample WHERE run_id = '$run_id' ORDER BY at" > "$OUT/samples.csv"
    cat "$OUT/submissions.csv" >&2
}

bench() {
    say "measurements"
    local gpu=() index=()
    if [ -n "$GPU" ]; then gpu=(--gpu "$GPU") index=(--gpu "$GPU"); fi
    "$PYTHON" tests/bench/admission.py --size-mb "${ADMISSION_MB:-3000}" --times 3 --folder "$HARNESS_HOME" --json > "$OUT/admission.json"
    "$PYTHON" tests/bench/training.py --model "$MODEL" --data-dir "$DATA_DIR" --task "$TASK" --python "$PYTHON" --times 3 --json \
        "${gpu[@]}" ${LIMIT:+--limit "$LIMIT"} > "$OUT/training.json"
    "$PYTHON" tests/bench/scoring.py --model "$MODEL" --data-dir "$DATA_DIR" --task "$TASK" --times 2 --published 1 \
        "${index[@]}" ${LIMIT:+--limit "$LIMIT"} --out "$OUT/scoring.json" >&2
}

steps=("$@")
if [ $# = 0 ]; then steps=(images run record bench); fi
for step in "${steps[@]}"; do
    case $step in
        images | run | record | bench) "$step" ;;
        *) echo "unknown step $step: images, run, record, bench" >&2; exit 2 ;;
    esac
done
say "done: $OUT"
