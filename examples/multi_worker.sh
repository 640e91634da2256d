#!/usr/bin/env bash
# One training by two processes of this machine, as on two machines, on images that it makes first. Copy it and change what
# you need.
#
#   examples/multi_worker.sh OUT
#
#   OUT   folder for everything that is written
#
# Both processes run one command; TF_CONFIG says which of them is which. The first one is the chief, which alone writes
# to OUT/run. Call it again after an interruption: it goes on from the chief's last checkpoint. PORT is the first of two free
# ports, and TRAIN_OPTIONS are further options of `gpimaging classify train`.
#
# On several machines, start the command of a process on each (docs/scaling.md has job files for SLURM and Kubernetes), with
# addresses that they reach each other by in place of 127.0.0.1, and with OUT in a folder that all of them see.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 OUT" >&2
    exit 2
fi
out=$1
port=${PORT:-12345}
read -r -a options <<< "${TRAIN_OPTIONS:-}"

mkdir -p "$out"
if [ ! -d "$out/images" ]; then
    python - "$out/images" <<'PYTHON'
"""Writes noise, darker in one class than in the other."""
import sys
from pathlib import Path

import cv2
import numpy as np

random = np.random.default_rng(0)
for name, level in (("dark", 90), ("light", 150)):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    for number in range(24):
        image = random.normal(level, 30, (16, 16, 3)).clip(0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), image)
PYTHON
fi
if [ ! -e "$out/prepared/manifest.json" ]; then
    gpimaging classify prepare --images "$out/images" --out "$out/prepared" --size 16x16
fi

resume=()
if [ -e "$out/run/run.json" ]; then
    resume=(--resume)
fi
cluster="{\"worker\": [\"127.0.0.1:$port\", \"127.0.0.1:$((port + 1))\"]}"
processes=()
trap 'kill ${processes[@]+"${processes[@]}"} 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for index in 0 1; do
    TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"worker\", \"index\": $index}}" \
        gpimaging classify train --data "$out/prepared" --out "$out/run" --strategy multi_worker \
        --set network=FE1 --set 'heads=[linear,svgp]' --set steps_per_epoch=5 --set batch_size=8 \
        --set pretraining_epochs=2 --set head_epochs=2 --set head_steps=20 \
        ${options[@]+"${options[@]}"} ${resume[@]+"${resume[@]}"} &
    processes+=($!)
done
# If one process is lost, the others end by themselves.
failed=0
for process in "${processes[@]}"; do
    wait "$process" || failed=1
done
exit "$failed"
