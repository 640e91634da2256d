"""Videos as the shared steps see them: judged by their clips' mean, from clips or cached features."""

import shutil
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.prepared.manifest import file_sha256
from data_prep.prepared.workers import Cluster, ended_its_workers
from data_prep.splits.divide import Splits
from data_prep.video.features import VideoFeatures
from data_prep.video.manifest import LearnedVideos
from data_prep.video.prepare import prepare_video
from data_prep.video.settings import ClipSettings, VideoPrepareSettings
from gpmodels.networks.res3d import Res3D
from pipelines.runs import train as head_training
from pipelines.video import extraction
from pipelines.video.application import VIDEO, PreparedFeatures, clip_strip, kept_trunk, open_videos
from pipelines.video.extraction import Extraction, VideoExtractorFactory, extract_features
from pipelines.video.features import cache_features
from pipelines.video.settings import FeaturesSettings, TrainSettings, VideoRun
from pipelines.video.trunk import save_video_trunk, video_trunk_facts

SETTINGS = VideoPrepareSettings(frames=2, size=(16, 16), resize=(16, 20), clip_seconds=0.5)

RUN = VideoRun(
    application="video",
    size=SETTINGS.size,
    num_data=4,
    batch_norm_momentum=0.9,
    counts={},
    manifest_sha256="",
    class_names=("Dark", "Light"),
    clips=ClipSettings(),
    trunk=None,
    learned=LearnedVideos(),
)


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """A prepared folder of eight videos of two classes, four clips each."""
    folder = tmp_path_factory.mktemp("videos")
    for level, name in ((40, "Dark"), (200, "Light")):
        for number in range(1, 5):
            path = folder / name / f"v_{name}_g{number:02d}_c01.avi"
            path.parent.mkdir(exist_ok=True)
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (24, 16))
            for frame in range(15):
                writer.write(np.full((16, 24, 3), level + frame, np.uint8))
            writer.release()
    prepare_video(folder, folder / "prepared", SETTINGS)
    return folder / "prepared"


@cache
def trunk(number: int):
    """A network; another one for each number, whatever seed the tests set."""
    network = Res3D(2)
    network.build((None, 2, 16, 16, 3))
    network.stem.convolution.kernel.assign_add(np.full((3, 7, 7, 3, 2), 1e-3 * number, np.float32))
    return network


def extract(
    clips: Path,
    out: Path,
    number: int = 0,
    learned: LearnedVideos = LearnedVideos(),  # noqa: B008 - frozen
    cluster: Cluster | None = None,
):
    out.mkdir(exist_ok=True)
    data = open_videos(clips)
    return extract_features(data, trunk(number), out, learned=learned, clips_at_once=3, cluster=cluster)


@pytest.fixture(scope="module")
def extracted(clips, tmp_path_factory) -> Path:
    """Features of these clips by the first network; not to be changed."""
    out = tmp_path_factory.mktemp("extracted")
    done = extract(clips, out)
    assert (done.videos, done.frames) == (8, 64)
    return out


@pytest.mark.slow
def test_features_of_a_video_are_judged_as_its_clips_are(clips, extracted):
    source, features = open_videos(clips), open_videos(extracted)
    assert isinstance(features, PreparedFeatures)
    names = [example.name for example in source.manifest.examples]
    assert VIDEO.judge.count(source, names) == VIDEO.judge.count(features, names) == 8
    network = trunk(0)
    for shown, cached in zip(
        VIDEO.judge.examples(source, names), VIDEO.judge.examples(features, names), strict=True
    ):
        assert (shown.name, shown.truth) == (cached.name, cached.truth)
        assert shown.image.shape == (4, 2, 16, 16, 3)
        expected = network(shown.image, training=False)
        np.testing.assert_allclose(cached.image, expected, rtol=1e-4, atol=1e-5)
        difference = VIDEO.judge.picture(source, shown).astype(int) - VIDEO.judge.picture(features, cached)
        assert np.abs(difference).max() <= 16  # a JPEG
    (one,) = VIDEO.judge.named(features, [shown.name])
    assert one.name == shown.name


@pytest.mark.slow
def test_an_interrupted_extraction_goes_on_and_a_stale_one_is_refused(clips, extracted, tmp_path):
    out = tmp_path / "features"
    shutil.copytree(extracted, out)
    (out / "video-000002.npz").unlink()
    (out / "manifest.json").unlink()
    assert extract(clips, out).videos == 1
    with pytest.raises(InputError, match="another network or of other clips"):
        extract(clips, out, number=1)
    with pytest.raises(InputError, match="another network or of other clips"):
        extract(clips, out, learned=LearnedVideos(train=("Dark/v_Dark_g01_c01",)))


@pytest.mark.slow
def test_a_cluster_extracts_what_one_process_extracts(clips, extracted, cluster, tmp_path):
    shutil.copyfile(extracted / "video-000003.npz", tmp_path / "video-000003.npz")
    done = extract(clips, tmp_path, cluster=cluster)
    assert (done.videos, done.frames) == (7, 56)
    names = sorted(path.name for path in extracted.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (extracted / name).read_bytes() == (tmp_path / name).read_bytes(), name


@pytest.mark.slow
def test_a_worker_opens_the_network_of_the_command_and_refuses_others(clips, tmp_path, monkeypatch):
    path = tmp_path / "trunk.safetensors"
    save_video_trunk(trunk(0), path)
    factory = VideoExtractorFactory(
        data=clips,
        prepared_sha256=file_sha256(clips / "manifest.json"),
        trunk=path,
        facts=video_trunk_facts(trunk(0), open_videos(clips).manifest.clip_settings),
        precision="bfloat16",
        clips_at_once=3,
    )
    monkeypatch.setattr(extraction, "VideoExtractor", lambda _folder, _manifest, network, _number: network)
    assert factory.open().compute_dtype == "bfloat16"
    with pytest.raises(InputError, match=r"manifest\.json: a worker sees something else"):
        replace(factory, prepared_sha256="0" * 64).open()
    save_video_trunk(trunk(1), path)
    with pytest.raises(InputError, match=r"trunk\.safetensors: a worker sees something else"):
        factory.open()


def test_a_video_that_ends_every_worker_is_named_and_others_are_kept(clips, tmp_path, monkeypatch):
    cached = VideoFeatures(np.zeros((4, trunk(0).num_features), np.float32), b"")

    def deadly(_cluster, _make, videos, file_of):
        yield extraction.ExtractedVideo(cached, 8, 0.1, 0.1)
        yield ended_its_workers(file_of(videos[1]))

    monkeypatch.setattr(extraction, "work_with_tensorflow", deadly)
    with pytest.raises(InputError, match=r"^Dark/v_Dark_g02_c01: every worker .* go on with --resume"):
        extract(clips, tmp_path, cluster=Cluster("tcp://host:8786", None))
    assert [path.name for path in tmp_path.glob("*.npz")] == ["video-000000.npz"]


def test_heads_are_not_judged_by_what_their_network_learned_from(clips, tmp_path):
    prepared = open_videos(clips)
    names = [example.name for example in prepared.manifest.examples]
    by_video = [names[at : at + 4] for at in range(0, 32, 4)]
    first = Splits(*(tuple(by_video[at] + by_video[at + 4]) for at in (0, 1)), test=tuple(by_video[2]))
    learned = VIDEO.inputs.all_facts(prepared, first)["learned"]
    assert learned.train == ("Dark/v_Dark_g01_c01", "Light/v_Light_g01_c01")
    extract(clips, tmp_path, learned=learned)
    features, none = open_videos(tmp_path), TrainSettings(svms=())

    def check(splits: Splits, settings: TrainSettings = none) -> list[str]:
        return VIDEO.inputs.warnings(features, splits, settings)

    assert check(first) == []
    for seen in (first.train, first.selection):
        with pytest.raises(InputError, match="learned from 2 of the videos to judge by"):
            check(Splits((), (), test=seen))
    (warning,) = check(Splits(first.selection, first.train, first.test))
    assert "2 of the selection videos trained the network" in warning
    (warning,) = check(first, TrainSettings(svms=(), width=4, augmentation=None))
    assert warning == "width, augmentation: no use for training on features"
    with pytest.raises(InputError, match="of 1 groups"):
        check(first, TrainSettings())


@pytest.mark.slow
def test_weights_to_begin_with_are_read_before_anything_is_written(clips, tmp_path):
    settings = TrainSettings(width=3, weights=tmp_path / "narrow.safetensors")
    save_video_trunk(trunk(0), settings.weights)
    arguments = {"data": clips, "console": Console(file=StringIO())}
    with pytest.raises(InputError, match="but a network of width 3 needs"):
        head_training.train(VIDEO, settings, out=tmp_path / "run", resume=False, **arguments)
    assert not (tmp_path / "run").exists()
    # Once there are checkpoints, the file is not needed any more.
    assert VIDEO.inputs.warnings(open_videos(clips), Splits((), (), ()), settings) == []
    network = VIDEO.network.make(TrainSettings(width=2), RUN)
    network.build((None, 2, 16, 16, 3))
    VIDEO.network.start(network, TrainSettings(width=2, weights=settings.weights), tf.data.Dataset.range(1))
    image = np.ones((1, 2, 16, 16, 3), np.float32)
    np.testing.assert_array_equal(network(image, training=False), trunk(0)(image, training=False))


@pytest.mark.slow
def test_a_run_keeps_the_network_of_its_features(extracted, tmp_path):
    manifest = open_videos(extracted).manifest
    shutil.copyfile(extracted / "trunk.safetensors", tmp_path / "trunk.safetensors")
    run = RUN.model_copy(update={"trunk": manifest.trunk, "clips": manifest.clip_settings})
    assert kept_trunk(tmp_path, run).width == 2
    save_video_trunk(trunk(1), tmp_path / "trunk.safetensors")
    with pytest.raises(InputError, match="is not the network"):
        kept_trunk(tmp_path, run)


@pytest.mark.slow
def test_features_replace_nothing(clips, tmp_path):
    out, weights = tmp_path / "features", tmp_path / "weights.safetensors"
    save_video_trunk(trunk(0), weights)

    def features(out: Path, *, resume: bool) -> Extraction:
        console = Console(file=StringIO())
        return cache_features(
            FeaturesSettings(),
            data=clips,
            weights=weights,
            model=None,
            out=out,
            resume=resume,
            console=console,
        )

    assert features(out, resume=True).videos == 8
    assert features(out, resume=True).videos == 0
    with pytest.raises(InputError, match=r"already has features\. Go on with --resume"):
        features(out, resume=False)
    with pytest.raises(InputError, match="is the folder of --data"):
        features(clips, resume=True)
    other = shutil.copytree(clips, tmp_path / "other")
    run = shutil.copytree(out, tmp_path / "run")
    (run / "manifest.json").unlink()
    (run / "run.json").write_text("{}")
    for folder in (other, run):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(InputError, match="no features to go on with"):
            features(folder, resume=True)
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_strip_shows_the_middle_clip_from_first_to_last_frame():
    clips = np.arange(3 * 8, dtype=np.uint8).reshape(3, 8, 1, 1, 1) * np.ones((1, 1, 4, 5, 3), np.uint8)
    strip = clip_strip(clips)
    assert strip.shape == (4, 3 * 5 + 2 * 4, 3)
    assert [int(strip[0, column, 0]) for column in (0, 9, 18)] == [8, 11, 15]
