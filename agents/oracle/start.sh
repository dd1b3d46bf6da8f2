#!/usr/bin/env bash
# Submits checkpoints/<benchmark>/ of this folder (weights only; everything else comes from the base model).
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
weights="$here/checkpoints/$TASK"
if ! compgen -G "$weights/*.safetensors" > /dev/null; then
    echo "oracle: there is no checkpoint for benchmark '$TASK' in $here/checkpoints" >&2
    exit 3
fi

checkpoint="$OUTPUT_DIR/oracle"
mkdir -p "$checkpoint"
find "$MODEL_PATH" -maxdepth 1 -type f ! -name '*.safetensors' ! -name '*.index.json' \
    -exec cp -L --no-preserve=mode {} "$checkpoint" \;
cp --no-preserve=mode "$weights"/*.safetensors "$checkpoint"

# 429 and 503 pass (another evaluation, a grader that starts again), and so does a lost connection: 409 then says that
# the submission had been taken. Anything else is final.
for attempt in 1 2 3 4 5; do
    status=0
    reply="$(curl --silent --show-error --max-time 3600 --write-out '\n%{http_code}' \
        -X POST "$GRADING_SERVER_URL/submit" -H 'Content-Type: application/json' \
        -d "{\"model_path\": \"$checkpoint\"}")" || status=$?
    code="${reply##*$'\n'}"
    echo "oracle: attempt $attempt: HTTP $code: ${reply%$'\n'*}"
    case "$code" in
        2?? | 409) exit 0 ;;
        429 | 503 | 000) sleep $((attempt * 3)) ;;
        *) [ "$status" -ne 0 ] || exit 1 ;;
    esac
done
echo "oracle: the grader took no submission" >&2
exit 1
