#!/usr/bin/env bash
# Pedestrian lanes, from labelled photographs to masks and uncertainty maps of new ones. Copy it and change what you need.
#
#   examples/lane.sh IMAGES MASKS PHOTOS OUT [TRAINING OPTIONS...]
#
#   IMAGES, MASKS   folders of labelled photographs and of their masks, with the same names but for the suffix
#   PHOTOS          a folder of photographs or videos to predict; no masks needed
#   OUT             folder for everything that is written
#
# For example, with a smaller network and fewer epochs than the defaults (all settings: gpimaging lane train --help-settings):
#
#   examples/lane.sh walks/images walks/masks new_photos lanes --set network=C3K3 --set pretraining_epochs=20
#
# Call it again after an interruption: finished steps are not repeated, and training goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 IMAGES MASKS PHOTOS OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
images=$1 masks=$2 photos=$3 out=$4
training_options=("${@:5}")

# Height and width the network sees, in pixels. Half the size takes a quarter of the time.
size=${SIZE:-306x306}

# Masks with class numbers need --lane-values, for example: prepare_options=(--lane-values 3,4 --ignore-values 11).
# Frames of one sequence should stay together: --group-pattern '^(sequence[0-9]+)'.
prepare_options=(--size "$size")

# Photographs with a mean entropy above this many nats are marked for a person to look at. Choose it from the column
# mean_entropy of predictions.csv.
refer_above=${REFER_ABOVE:-0.15}

mkdir -p "$out"

# 1. Images and masks to shards. A fifth of the images becomes the test part; files that cannot be used are listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging lane prepare --images "$images" --masks "$masks" --out "$out/prepared" "${prepare_options[@]}"

# 2. Train the network with each head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging lane train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 3. Judge all heads on the test part: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging lane evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"

# 4. Export the head that the report would take, and check the bundle.
gpimaging lane export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 5. Predict new photographs; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging lane predict --model "$out/bundle" --input "$photos" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Masks, maps and overlays: $out/predictions"
