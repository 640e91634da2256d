#!/usr/bin/env bash
# Defects of solar cells: 300 labelled photographs sort 2,324 others. examples/first_hour.ipynb is the same with pictures.
#
#   examples/solar_cells.sh OUT [TRAINING OPTIONS...]
#
# It needs: pip install "gpimaging[pretrained]" elpv-dataset (90 MB, CC BY-NC-SA 4.0), and about ten minutes of two cores.
# LABELLED=600 labels more, MAX_ERROR=0.1 guarantees a smaller error, PYTHON=... is another Python than the first on the path.
#
# Call it again after an interruption: finished steps are not repeated. For other settings, use another OUT.
set -euo pipefail

if [ $# -lt 1 ]; then
    echo "usage: $0 OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
out=$1
training_options=("${@:2}")

# At most this share of what is kept is wrong, with 95 % confidence; the others go to a person.
max_error=${MAX_ERROR:-0.15}

mkdir -p "$out"

# 1. The photographs as files: 300 in a folder for each class, the others in one folder.
[ -e "$out/photographs.csv" ] || "${PYTHON:-python}" - "$out" "${LABELLED:-300}" <<'PROGRAM'
import csv
import sys
from pathlib import Path

import numpy as np
from elpv_dataset.utils import load_dataset
from PIL import Image

out, labelled = Path(sys.argv[1]), int(sys.argv[2])
photographs, probability, _ = load_dataset()
rows = []
for place, number in enumerate(np.random.default_rng(0).permutation(len(photographs))):
    name = "defective" if probability[number] > 0.5 else "sound"
    folder = out / "labelled" / name if place < labelled else out / "new"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(photographs[number]).save(folder / f"{number:04d}.png")
    rows.append([f"{number:04d}.png", name])
with (out / "photographs.csv").open("w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([["image", "class"], *rows])
PROGRAM

# 2. Images to shards; a fifth is set aside for judging. Each photograph shows another cell, and the labelled ones are a random
#    draw of all, so that none has to be kept with similar ones. Leave the setting out where a cell was photographed twice.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging classify prepare --images "$out/labelled" --out "$out/prepared" --set duplicate_distance=-1

# 3. Train each head on the features of the pretrained network.
gpimaging classify train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 4. Judge all heads, and export the one that is named.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging classify evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"
[ -e "$out/bundle/metadata.json" ] ||
    gpimaging classify export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json"

# 5. Sort the other photographs.
gpimaging classify predict --model "$out/bundle" --input "$out/new" --out "$out/predictions" --max-error "$max_error"

echo "Report: $out/evaluation/report.html"
echo "Classes, and who goes to a person: $out/predictions/predictions.csv; the experts' classes: $out/photographs.csv"
