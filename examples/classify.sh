#!/usr/bin/env bash
# Classes of images, from a folder for each class to the classes of new images. Copy it and change what you need.
#
#   examples/classify.sh IMAGES NEW OUT [TRAINING OPTIONS...]
#
#   IMAGES        a folder with a subfolder of images for each class
#   NEW           a folder of new images to predict
#   OUT           folder for everything that is written
#
# For example, with a small network that begins with nothing (all settings: gpimaging classify train --help-settings):
#
#   examples/classify.sh pictures new flowers --set network=FE2
#
# Call it again after an interruption: finished steps are not repeated, and training goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 IMAGES NEW OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
images=$1 new=$2 out=$3
training_options=("${@:4}")

# Height and width the network sees, in pixels; --fit pad keeps all of long or wide images.
prepare_options=(--size "${SIZE:-160x160}" --fit "${FIT:-crop}")

# A table with the columns image,class and perhaps group and split, instead of class folders.
[ -z "${TABLE:-}" ] || prepare_options+=(--table "$TABLE")

# Images with an entropy above this many nats are for a person. Choose it from the referral curve of the report.
refer_above=${REFER_ABOVE:-0.5}

mkdir -p "$out"

# 1. Images to shards. A fifth of each class becomes the test part; files that cannot be used are listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging classify prepare --images "$images" --out "$out/prepared" "${prepare_options[@]}"

# 2. Train the network with each head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging classify train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 3. Judge all heads on the test part: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging classify evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"

# 4. Export the head that the report would take, and check the bundle.
gpimaging classify export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 5. Predict the new images; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging classify predict --model "$out/bundle" --input "$new" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Classes, and the least certain images on one sheet: $out/predictions"
