#!/usr/bin/env bash
# Objects in sonar images, from labelled data to classes and boxes in new images. Copy it and change what you need.
#
#   examples/sonar.sh IMAGES ANNOTATIONS SURVEY OUT [TRAINING OPTIONS...]
#
#   IMAGES        a folder with a subfolder of snapshots for each class; or a folder of whole sonar images
#   ANNOTATIONS   - for snapshots in class folders; else a CSV file of boxes (image,x,y,w,h,class) or a folder of annotation files
#   SURVEY        a folder of new snapshots or whole sonar images to predict
#   OUT           folder for everything that is written
#
# For example, with the larger network (all settings: gpimaging sonar train --help-settings):
#
#   examples/sonar.sh lines boxes.csv new_lines found --set network=FE2
#
# Call it again after an interruption: finished steps are not repeated, and training goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 IMAGES ANNOTATIONS SURVEY OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
images=$1 annotations=$2 survey=$3 out=$4
training_options=("${@:5}")

# Height and width the network sees, in pixels.
prepare_options=(--size "${SIZE:-32x32}")

# Whole images: how much of them a snapshot shows, and how many snapshots without an object are cut for each object.
if [ "$annotations" != - ]; then
    prepare_options+=(--annotations "$annotations" --window "${WINDOW:-64x64}" --set background_ratio=2)
fi
# Snapshots of one survey line should stay together: prepare_options+=(--group-pattern '^(line[0-9]+)').

# Snapshots and boxes with an entropy above this many nats are for an analyst. Choose it from the referral curve of the report.
refer_above=${REFER_ABOVE:-0.5}

mkdir -p "$out"

# 1. Images to shards of snapshots. Half of each class becomes the test part; files that cannot be used are listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging sonar prepare --images "$images" --out "$out/prepared" "${prepare_options[@]}"

# 2. Train the network with each head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging sonar train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 3. Judge all heads on the test part: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging sonar evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"

# 4. Export the head that the report would take, and check the bundle.
gpimaging sonar export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 5. Predict the survey; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging sonar predict --model "$out/bundle" --input "$survey" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Classes, boxes and pictures: $out/predictions"
