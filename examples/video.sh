#!/usr/bin/env bash
# Actions in videos, from videos by class to what happens in new ones over time. Copy it and change what you need.
#
#   examples/video.sh VIDEOS NEW OUT [TRAINING OPTIONS...]
#
#   VIDEOS        a folder with a subfolder of videos for each class
#   NEW           a folder of new videos to predict
#   OUT           folder for everything that is written
#
# Without WEIGHTS the network learns from the videos. With WEIGHTS, a file of weights of torchvision's r3d_18 that you have
# (.safetensors or .npz), it stays as it is, and only the heads learn, from its features:
#
#   WEIGHTS=r3d_18.safetensors SIZE=112x112 RESIZE=128x171 FRAMES=16 examples/video.sh videos new found
#
# All settings: gpimaging video train --help-settings. Call it again after an interruption: finished steps are not repeated,
# and training goes on where it was. After a change of data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 VIDEOS NEW OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
videos=$1 new=$2 out=$3
training_options=("${@:4}")

# What the network sees: frames of a clip, and their height and width before and after the middle is cut out.
prepare_options=(--frames "${FRAMES:-8}" --resize "${RESIZE:-64x80}" --size "${SIZE:-64x64}")
# Videos of one person or recording should stay together: prepare_options+=(--group-pattern '_(p[0-9]+)_').

# Windows, segments and videos with an entropy above this many nats are for a person. Choose it from the report's referral curve.
refer_above=${REFER_ABOVE:-0.5}

mkdir -p "$out"

# 1. Videos to shards of clips. Three tenths become the test part; videos that cannot be used are listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging video prepare --videos "$videos" --out "$out/prepared" "${prepare_options[@]}"
data="$out/prepared"

# 2. With weights: the features of all clips, once.
if [ -n "${WEIGHTS:-}" ]; then
    gpimaging video features --data "$out/prepared" --weights "$WEIGHTS" --out "$out/features" --resume
    data="$out/features"
fi

# 3. Train with each head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging video train --data "$data" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 4. Judge all heads on the test part: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging video evaluate --data "$data" --model "$out/run" --out "$out/evaluation"

# 5. Export the head that the evaluation says to take with its network and check the bundle.
gpimaging video export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 6. Predict the new videos; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging video predict --model "$out/bundle" --input "$new" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Tables, plots and videos: $out/predictions"
