#!/usr/bin/env bash
# How well a run tells images of a class that it never saw, with the linear head and the HGP on the pretrained
# trunk. Each class is left out in turn; the seed gives split, weights and order.
#
#     benchmarks/left_out_classes.sh IMAGES OUT [SEED [TRAIN OPTIONS]]
#
# IMAGES has a folder of sonar images for each class. TRAIN OPTIONS are options of `gpimaging sonar train`, such as
# `--set mean=none` for heads without the linear layer as their mean. Prints, for each head and uncertainty, the mean AUROC with
# which `gpimaging sonar evaluate --unfamiliar` tells the class that was left out from the test images.
set -euo pipefail
images=$1 out=$2 seed=${3:-5}
shift $(($# < 3 ? $# : 3))

for folder in "$images"/*/; do
    name=$(basename "$folder")
    work=$out/$name
    [ -f "$work/evaluation/metrics.json" ] && continue
    rm -rf "$work"
    mkdir -p "$work/images"
    for other in "$images"/*/; do
        [ "$other" = "$folder" ] || cp -r "$other" "$work/images/"
    done
    gpimaging sonar prepare --images "$work/images" --out "$work/prepared" --set test_fraction=0.5 --seed "$seed"
    gpimaging sonar train --data "$work/prepared" --out "$work/run" --seed "$seed" \
        --set network=efficientnet_lite0 --set 'heads=[linear, hgp]' "$@"
    gpimaging sonar evaluate --data "$work/prepared" --model "$work/run" --out "$work/evaluation" --unfamiliar "$folder"
    rm -rf "$work/images" "$work/prepared"
done

python - "$out" <<'PYTHON'
import json
import sys
from collections import defaultdict
from pathlib import Path

found = defaultdict(list)
for path in sorted(Path(sys.argv[1]).glob("*/evaluation/metrics.json")):
    for head, method in json.loads(path.read_text())["methods"].items():
        for measure, scores in method["unfamiliar"]["scores"].items():
            found[head, measure].append(scores["auroc"])
for (head, measure), values in found.items():
    print(f"{head:24} {measure:20} {sum(values) / len(values):.3f} over {len(values)} classes")
PYTHON
