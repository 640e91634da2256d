#!/usr/bin/env bash
# Tumours in stained tissue, from labelled images or slides to maps of new ones. Copy it and change what you need.
#
#   examples/histopathology.sh IMAGES LABELS SLIDES OUT [TRAINING OPTIONS...]
#
#   IMAGES   a folder of images or whole slides
#   LABELS   CSV with the columns file, label and patient; - where each class has a subfolder of its own
#   SLIDES   a folder of new images or slides to predict
#   OUT      folder for everything that is written
#
# For example, with a small network for each stain instead of handmade features (all settings: gpimaging
# histopathology train --help-settings):
#
#   examples/histopathology.sh biopsies labels.csv new_biopsies tumours --features cnn --head linear --head dfgp-mkl
#
# Call it again after an interruption: finished steps are not repeated, and training goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 IMAGES LABELS SLIDES OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
images=$1 labels=$2 slides=$3 out=$4
training_options=("${@:5}")

# Side of a patch in pixels. For slides of several magnifications also: prepare_options+=(--mpp 0.5).
prepare_options=(--patch-size "${PATCH:-200}")
if [ "$labels" != - ]; then
    prepare_options+=(--labels "$labels")
fi
# Without a column for them, patients may show in the names of files: prepare_options+=(--group-pattern '^(P[0-9]+)').

# Images with an entropy above this many nats are for a pathologist. Choose it from the referral curve of the report.
refer_above=${REFER_ABOVE:-0.5}

mkdir -p "$out"

# 1. Images to patches and their features. Part of the patients is kept to judge by; files that cannot be used are listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging histopathology prepare --images "$images" --out "$out/prepared" "${prepare_options[@]}"

# 2. Train every head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging histopathology train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 3. Judge all heads on images of the other patients: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging histopathology evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"

# 4. Export the head that the evaluation says to take and check the bundle.
gpimaging histopathology export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 5. Predict new slides; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging histopathology predict --model "$out/bundle" --input "$slides" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Classes, maps and GeoJSON: $out/predictions"
