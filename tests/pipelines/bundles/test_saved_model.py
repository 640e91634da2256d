"""A bundle is complete, describes itself truly, and no damage or change passes its verification."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml

import pipelines
from benchmarks.simulated_classes import simulated
from data_prep.errors import InputError
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles import saved_model as bundle_module
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.portable import PORTABLES
from pipelines.bundles.saved_model import Verification, load_signatures, verify_bundle, write_bundle
from pipelines.bundles.serving import MapServer
from pipelines.command.folders import METADATA
from pipelines.evaluation.export import export as export_run
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun
from pipelines.runs.settings import ExportSettings
from pipelines.scores.held_out import HELD_OUT
from tests.pipelines.tiny_lane import SETTINGS, SIZE, export, quiet

FILES = {
    "config.yaml",
    "fingerprint.pb",
    "held_out.npz",
    "metadata.json",
    "metrics.json",
    "model_card.md",
    "sample.npz",
    "saved_model.pb",
    "variables/variables.data-00000-of-00001",
    "variables/variables.index",
}
VARIABLES = "variables/variables.data-00000-of-00001"


class Brightness(tf.Module):
    """A model without network or training: the logit is the brightness, times a weight."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = tf.Variable(weight)

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        logit = self.weight * (tf.reduce_mean(images, axis=-1) / 255.0 - 0.5)
        probability = tf.sigmoid(logit)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(probability, logit)
        maps = {"probability": probability, "predictive_entropy": entropy, "latent_mean": logit}
        return {**maps, "latent_variance": tf.zeros_like(logit), "mutual_information": tf.zeros_like(logit)}


def write_brightness(
    folder: Path,
    weight: float,
    *,
    overwrite: bool = False,
    portable: str = "saved_model",
    files: dict[str, str | Path] | None = None,
) -> Path:
    config = folder.parent / "config.yaml"
    config.write_text("seed: 0\n")
    model = Brightness(weight)
    run = LaneRun(
        application="lane",
        size=SIZE,
        num_data=1,
        batch_norm_momentum=0.9,
        counts={"train": 1, "selection": 1},
        manifest_sha256="",
    )
    write_bundle(
        folder,
        MapServer(model, SIZE),
        LANE.deployment.metadata(folder.name, "linear", SETTINGS, run, SETTINGS.network),
        sample=LANE.deployment.sample(run, keras.Sequential()),
        config=config,
        metrics=None,
        files=files or {},
        portable=PORTABLES.get(portable),
        overwrite=overwrite,
    )
    return folder


@pytest.fixture(scope="module")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    simulated(np.random.default_rng(0), 20).write(folder / HELD_OUT)
    return write_brightness(folder / "bundle", 4.0, files={HELD_OUT: folder / HELD_OUT})


@pytest.fixture
def copy(small_bundle: Path, tmp_path: Path) -> Path:
    """A bundle to damage, soon loaded."""
    return Path(shutil.copytree(small_bundle, tmp_path / "bundle"))


@pytest.fixture(scope="module")
def linear_bundle(lane_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(lane_run, tmp_path_factory.mktemp("linear") / "linear_bundle", head="linear")


def change_metadata(bundle: Path, change: Callable[[dict], object]) -> None:
    path = bundle / METADATA
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def forget_checksums(bundle: Path) -> None:
    """So that what is run is tested, not the files."""
    change_metadata(bundle, lambda content: content["sha256"].clear())


def change_sample(bundle: Path, change: Callable[[dict], object]) -> None:
    with np.load(bundle / "sample.npz") as archive:
        content = dict(archive)
    change(content)
    np.savez_compressed(bundle / "sample.npz", **content)
    forget_checksums(bundle)


def fails(bundle: Path, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        verify_bundle(bundle)
    assert str(bundle) in str(caught.value)


# What is in it ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bundle_has_every_file_and_no_other(lane_bundle):
    files = {p.relative_to(lane_bundle).as_posix() for p in lane_bundle.rglob("*") if p.is_file()}
    assert files == FILES


def test_every_file_but_card_and_metadata_has_its_checksum(lane_bundle):
    sha256 = load_metadata(lane_bundle).sha256
    assert set(sha256) == FILES - {"metadata.json", "model_card.md"}
    assert all(file_sha256(lane_bundle / name) == value for name, value in sha256.items())


def test_metadata_describes_the_signatures_as_they_are(lane_bundle):
    metadata = load_metadata(lane_bundle)
    loaded = tf.saved_model.load(str(lane_bundle)).signatures
    assert set(metadata.signatures) == set(loaded) == {"serving_default", "serve_bytes"}
    for name, described in metadata.signatures.items():
        (_, inputs), outputs = loaded[name].structured_input_signature, loaded[name].structured_outputs
        for specs, descriptions in ((inputs, described.inputs), (outputs, described.outputs)):
            assert set(specs) == set(descriptions)
            for key, spec in specs.items():
                assert spec.dtype.name == descriptions[key].dtype, (name, key)
                assert tuple(spec.shape) == descriptions[key].shape, (name, key)


def test_metadata_says_what_is_needed(lane_bundle, lane_run):
    metadata = load_metadata(lane_bundle)
    assert (metadata.name, metadata.application, metadata.network_size) == ("bundle", "lane", SIZE)
    assert metadata.head == "hierarchical Gaussian process"
    assert metadata.class_names == ("background", "lane")
    assert set(metadata.versions) == {"gpimaging", "tensorflow", "keras", "gpflow", "numpy"}
    run = json.loads((lane_run / "run.json").read_text())
    assert metadata.training_data["images"] == run["counts"]["train"]
    assert metadata.training_data["pixels"] == run["num_data"]
    outputs = metadata.signatures["serving_default"].outputs
    assert outputs["predictive_entropy"].range == (0.0, pytest.approx(np.log(2)))
    assert outputs["predictive_entropy"].unit == "nats"


def test_outputs_stay_in_the_ranges_described(lane_bundle):
    outputs = load_metadata(lane_bundle).signatures["serving_default"].outputs
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), np.uint8)
    for name, value in load_signatures(lane_bundle)["serving_default"](images=tf.constant(images)).items():
        low, high = outputs[name].range
        assert low is None or low <= value.numpy().min(), name
        assert high is None or value.numpy().max() <= high + 1e-6, name


@pytest.mark.slow
def test_card_config_and_metrics(lane_run, lane_bundle, tmp_path):
    card = (lane_bundle / "model_card.md").read_text()
    assert card.startswith("# bundle\n")
    assert "No safety device." in card
    assert "Not evaluated before the export." in card
    assert "| predictive_entropy | float32 | 0 to 0.6931 nats |" in card
    config = yaml.safe_load((lane_bundle / "config.yaml").read_text())
    assert config["network"] == SETTINGS.network
    assert json.loads((lane_bundle / "metrics.json").read_text()) == {}
    metrics = tmp_path / "metrics.json"
    metrics.write_text('{"methods": {"HGP": 1}}')
    judged = export(lane_run, tmp_path / "judged", metrics=metrics)
    assert json.loads((judged / "metrics.json").read_text()) == {"methods": {"HGP": 1}}
    assert "See metrics.json." in (judged / "model_card.md").read_text()


def test_there_is_no_pickle(lane_bundle):
    with np.load(lane_bundle / "sample.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)


@pytest.mark.slow
@pytest.mark.parametrize(("tempered", "temperature"), [(True, None), (False, 1.0)])
def test_a_linear_head_is_exported_with_its_temperature_if_wanted(
    lane_run, linear_bundle, tmp_path, tempered, temperature
):
    temperature = temperature or json.loads((lane_run / "run.json").read_text())["temperature"]
    bundle = linear_bundle if tempered else export(lane_run, tmp_path / "raw", head="linear", tempered=False)
    maps = load_signatures(bundle)["serving_default"](images=tf.zeros([1, *SIZE, 3], tf.uint8))
    raw = load_signatures(linear_bundle)["serving_default"](images=tf.zeros([1, *SIZE, 3], tf.uint8))
    fitted = json.loads((lane_run / "run.json").read_text())["temperature"]
    np.testing.assert_allclose(
        maps["latent_mean"].numpy() * temperature, raw["latent_mean"].numpy() * fitted, rtol=1e-4, atol=1e-5
    )


# Verification -----------------------------------------------------------------------------------------------


def test_verification_passes_and_covers_every_output(lane_bundle):
    verification = verify_bundle(lane_bundle)
    metadata = load_metadata(lane_bundle)
    assert set(verification.differences) == {
        f"{name}/{output}"
        for name, description in metadata.signatures.items()
        for output in description.outputs
    }
    assert verification.worst <= 1e-5


@pytest.mark.slow
def test_a_file_whose_runtime_is_not_installed_is_named_but_not_run(lane_bundle, tmp_path, monkeypatch):
    bundle = Path(shutil.copytree(lane_bundle, tmp_path / "bundle"))
    file = bundle / PORTABLES["onnx"].name
    file.write_bytes(b"cannot be run")
    change_metadata(bundle, lambda content: content["sha256"].update({file.name: file_sha256(file)}))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    verification = verify_bundle(bundle)
    assert verification.not_run == (file.name,)
    assert verification.differences == verify_bundle(lane_bundle).differences
    file.write_bytes(b"changed")
    with pytest.raises(InputError, match=r"network\.onnx does not match its checksum"):
        verify_bundle(bundle)


def test_the_worst_difference_is_nan_if_one_is():
    assert np.isnan(Verification({"a": 0.0, "b": float("nan"), "c": 0.0}).worst)


def test_a_bundle_of_another_application_is_refused(lane_bundle):
    assert load_signatures(lane_bundle, application="lane")
    with pytest.raises(InputError, match="a bundle of `gpimaging lane`, not of `gpimaging sonar`"):
        load_signatures(lane_bundle, application="sonar")


@pytest.mark.slow
def test_verification_in_a_fresh_process_needs_only_the_bundle(lane_bundle, tmp_path):
    copy = Path(shutil.copytree(lane_bundle, tmp_path / "bundle"))
    root = Path(pipelines.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        cwd=copy.parent,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    assert f"{copy} is good" in done.stdout
    assert "custom gradients" not in done.stderr


@pytest.mark.slow
def test_a_note_on_the_card_is_no_damage(copy):
    with (copy / "model_card.md").open("a") as card:
        card.write("Used in the park since May.\n")
    (copy / "NOTES.txt").write_text("more")
    verify_bundle(copy)


def test_a_folder_that_is_no_bundle(tmp_path, lane_run):
    for folder in (tmp_path, lane_run):
        fails(
            folder,
            r"is no bundle: metadata\.json or saved_model\.pb is missing\. Pass the --out of an export",
        )
    fails(tmp_path / "nowhere", r"does not exist\. Check the path: pass the --out of an export")


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_another_schema_version(copy, version):
    change_metadata(copy, lambda content: content.update(schema_version=version, new_key=1))
    fails(copy, rf"has schema version {version}, but this gpimaging reads 1\. Export the model again")


@pytest.mark.parametrize("name", sorted(FILES - {"metadata.json", "model_card.md", "saved_model.pb"}))
def test_a_missing_file(copy, name):
    (copy / name).unlink()
    fails(copy, r"is missing, but metadata\.json lists it")


@pytest.mark.parametrize("name", sorted(FILES - {"metadata.json", "model_card.md"}))
@pytest.mark.parametrize("share", [0.0, 0.9])
def test_a_truncated_file(copy, name, share):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: int(share * len(content))])
    fails(copy, r"does not match its checksum .* Copy or export the bundle again")


def test_all_damaged_files_are_named(copy):
    (copy / "variables" / "variables.index").unlink()
    (copy / "config.yaml").write_text("changed")
    damage = r"config\.yaml does not match its checksum .*\n.*variables\.index is missing, but .* Copy or"
    fails(copy, damage)
    with pytest.raises(InputError, match=damage):
        load_signatures(copy)


def test_a_changed_file_that_would_load_is_refused_before_predicting(copy):
    (copy / "config.yaml").write_text("changed")
    with pytest.raises(InputError, match=r"config\.yaml does not match its checksum .* Copy or export"):
        load_signatures(copy)


@pytest.mark.parametrize("name", ["saved_model.pb", VARIABLES, "variables/variables.index", "sample.npz"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_truncation_ends_without_a_traceback_even_without_checksums(copy, name, share):
    forget_checksums(copy)
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: int(share * len(content))])
    fails(copy, r"cannot be (read|loaded).* [Ee]xport the bundle again")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '"text"', '{"schema_version": 1}', "[" * 100_000, "9" * 10_000]
)
def test_damaged_metadata(copy, content):
    (copy / METADATA).write_text(content)
    fails(copy, r"metadata\.json")


class Reaching(tf.Module):
    """A model that does what no export does, in one way."""

    def __init__(self, way: str, target: str) -> None:
        super().__init__()
        self.way, self.target = way, target

    @tf.function(input_signature=[tf.TensorSpec((None, None, None, 3), tf.uint8, "images")])
    def serve(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.way == "write":
            tf.io.write_file(self.target, "written")
        if self.way == "read":
            images = images + tf.cast(tf.strings.length(tf.io.read_file(self.target)), tf.uint8)
        if self.way == "print":
            tf.print(images, output_stream=f"file://{self.target}")
        if self.way == "python":
            images = tf.numpy_function(np.negative, [images], tf.uint8)
        return {"probability": tf.cast(images, tf.float32)}


@pytest.mark.parametrize(
    ("way", "match"),
    [
        ("write", "has the operations WriteFile, which reach beyond the model"),
        ("read", "has the operations ReadFile"),
        ("print", "has the operations PrintV2"),
        ("python", "has the operations PyFunc"),
        ("", r"the model has the signatures \['serving_default'\], but metadata\.json describes"),
    ],
)
def test_a_foreign_graph_is_refused_before_it_is_called(copy, tmp_path, way, match):
    model = Reaching(way, str(tmp_path / "outside"))
    tf.saved_model.save(model, str(copy), signatures={"serving_default": model.serve})
    forget_checksums(copy)
    with pytest.raises(InputError, match=match) as caught:
        load_signatures(copy)
    assert str(copy) in str(caught.value)
    assert not (tmp_path / "outside").exists()


def test_operations_outside_of_functions_are_refused_too(copy, tmp_path):
    """A graph of TensorFlow 1 has none, and runs its initialisation when it is loaded."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        written = tf.io.write_file(str(tmp_path / "outside"), "written")
        builder = tf1.saved_model.Builder(str(tmp_path / "foreign"))
        builder.add_meta_graph_and_variables(session, ["serve"], main_op=written)
        builder.save()
    shutil.copy(tmp_path / "foreign" / "saved_model.pb", copy / "saved_model.pb")
    forget_checksums(copy)
    with pytest.raises(InputError, match="has the operations WriteFile"):
        load_signatures(copy)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("part", ["inputs", "outputs"])
def test_a_graph_that_takes_or_returns_something_else_is_refused_before_it_is_called(copy, part):
    def change(content: dict) -> None:
        content["signatures"]["serving_default"][part].popitem()

    change_metadata(copy, change)
    with pytest.raises(InputError, match=r"serving_default (takes|returns) .*, but metadata\.json describes"):
        load_signatures(copy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "noticed"), [(4.2, True), pytest.param(4.0001, False, marks=pytest.mark.slow)]
)
def test_weights_of_another_export_are_noticed_by_running_them(copy, tmp_path, weight, noticed):
    other = write_brightness(tmp_path / "other", weight)
    shutil.copy(other / "saved_model.pb", copy)  # of so few weights the graph has the values
    fails(copy, "does not match its checksum")  # however little they differ
    forget_checksums(copy)
    if noticed:
        fails(copy, r"outputs differ .*serving_default/probability by 0\.00.*allowed is 0\.001")
    else:
        verify_bundle(copy)


@pytest.mark.slow
def test_the_network_of_another_head_is_noticed(lane_bundle, linear_bundle, tmp_path):
    copy = Path(shutil.copytree(lane_bundle, tmp_path / "bundle"))
    shutil.rmtree(copy / "variables")
    shutil.copytree(linear_bundle / "variables", copy / "variables")
    forget_checksums(copy)
    fails(copy, r"serving_default/latent_mean by .*allowed is 0\.001")


def test_a_single_changed_weight_is_noticed(copy):
    content = bytearray((copy / VARIABLES).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / VARIABLES).write_bytes(bytes(content))
    fails(copy, "does not match its checksum")


def outputs_of(content: dict) -> dict:
    return content["signatures"]["serving_default"]["outputs"]


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda c: c["signatures"].pop("serve_bytes"), "the model has the signatures"),
        (
            lambda c: c["signatures"].update(extra=c["signatures"]["serve_bytes"]),
            "the model has the signatures",
        ),
        (lambda c: outputs_of(c).pop("label"), "serving_default returns"),
        (lambda c: outputs_of(c).update(extra=outputs_of(c)["label"]), "serving_default returns"),
        (lambda c: outputs_of(c)["label"].update(dtype="int64"), r"label is int32 .* describes int64"),
        (lambda c: outputs_of(c)["label"].update(shape=[None, 5, 5]), r"label is int32 .*\(None, 5, 5\)"),
        (lambda c: outputs_of(c)["probability"].update(range=[0.0, 1e-9]), "probability lies between"),
        (
            lambda c: outputs_of(c)["latent_variance"].update(range=[1e9, None]),
            "latent_variance lies between",
        ),
        (lambda c: c["signatures"]["serving_default"].update(inputs={}), "serving_default takes .*images"),
        (
            lambda c: c["signatures"]["serving_default"]["inputs"]["images"].update(dtype="float32"),
            "serving_default takes .*uint8.* describes .*float32",
        ),
        (lambda c: c.update(sha256={"../outside": "0"}), "is not a file of the bundle"),
        (lambda c: c.update(sha256={"/etc/passwd": "0"}), "is not a file of the bundle"),
        (lambda c: c.update(unknown=1), "does not describe a bundle"),
        (lambda c: c.pop("limitations"), "does not describe a bundle"),
    ],
)
def test_changed_metadata(copy, change, match):
    change_metadata(copy, change)
    fails(copy, rf"(?s){match}")


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s.pop("images"), r"sample\.npz holds no 'images'"),
        (lambda s: s.pop("serving_default/probability"), r"holds no serving_default/probability of shape"),
        (lambda s: s.update({"serve_bytes/label": np.zeros(3)}), r"holds no serve_bytes/label of shape"),
        (
            lambda s: s.update(encoded=np.frombuffer(b"no image", np.uint8)),
            r"serve_bytes fails on the stored sample",
        ),
        (lambda s: s["serving_default/latent_mean"].__iadd__(0.1), r"serving_default/latent_mean by 0\.1"),
        (
            lambda s: s["serve_bytes/mutual_information"].fill(np.nan),
            r"serve_bytes/mutual_information by nan",
        ),
        (lambda s: s["serve_bytes/original_size"].__iadd__(1), r"serve_bytes/original_size by"),
        (
            lambda s: s.update({"serving_default/label": 1 - s["serving_default/label"]}),
            r"serving_default/label by",
        ),
    ],
)
def test_a_sample_that_does_not_fit(copy, change, match):
    change_sample(copy, change)
    fails(copy, match)


def test_a_sample_that_is_no_archive(copy):
    forget_checksums(copy)
    with (copy / "sample.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    fails(copy, r"sample\.npz cannot be read \(a single array, no archive\)")


def test_a_sample_with_pickled_objects_is_not_loaded(copy, tmp_path):
    marker = tmp_path / "executed"

    class Exploit:
        def __reduce__(self) -> tuple:
            return (Path.touch, (marker,))

    change_sample(copy, lambda s: s.update(images=np.array([Exploit()], dtype=object)))
    fails(copy, r"sample\.npz cannot be read")
    assert not marker.exists()


@pytest.mark.slow
def test_a_label_may_flip_where_the_probability_is_one_half(copy):
    """Another processor may round to the other side."""
    with np.load(copy / "sample.npz") as archive:
        probability = archive["serving_default/probability"]
    tolerance = float(np.sort(np.abs(probability - 0.5).ravel())[3]) + 1e-7
    undecided = np.abs(probability - 0.5) <= tolerance
    change_sample(copy, lambda s: s["serving_default/label"].__setitem__(undecided, 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_module, "TOLERANCE", tolerance)
        assert verify_bundle(copy).differences["serving_default/label"] == 0.0
        patch.setattr(bundle_module, "TOLERANCE", tolerance / 2)
        with pytest.raises(InputError, match="serving_default/label by"):
            verify_bundle(copy)


# Writing ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_existing_bundle_is_kept_unless_it_may_be_replaced(lane_run, copy):
    before = (copy / METADATA).read_bytes()
    with pytest.raises(InputError, match="already exists"):
        write_brightness(copy, 1.0)
    with pytest.raises(InputError, match="already exists"):
        export(lane_run, copy)
    assert (copy / METADATA).read_bytes() == before
    export_run(
        LANE,
        ExportSettings(head="linear"),
        model=lane_run,
        out=copy,
        metrics=None,
        overwrite=True,
        console=quiet(),
    )
    assert load_metadata(copy).head == "linear"
    verify_bundle(copy)


def no_space(*_: object, **__: object) -> None:
    raise tf.errors.ResourceExhaustedError(
        None, None, "some/variables.tempstate; No space left on device [Op:SaveV2]"
    )


def no_space_in_python(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("target", "name", "failure"),
    [
        # Looked up when the test runs: TensorFlow loads this module lazily, and may have two of it.
        (lambda: bundle_module.tf.saved_model, "save", no_space),
        (lambda: np, "savez_compressed", no_space_in_python),
        (lambda: shutil, "copyfile", no_space_in_python),
        (lambda: bundle_module, "model_card", no_space_in_python),
    ],
)
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, target, name, failure):
    module = target()
    real = getattr(module, name)

    def partly(*arguments: object, **options: object) -> None:
        real(*arguments, **options)
        failure()

    monkeypatch.setattr(module, name, partly)
    out = tmp_path / "new" / "bundle"
    out.parent.mkdir()
    with pytest.raises(
        InputError, match=r"bundle: cannot be written \(No space left on device\)\. Nothing of it was kept"
    ):
        write_brightness(out, 1.0)
    assert [path.name for path in out.parent.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder(tmp_path, monkeypatch, number):
    """Injected, since the superuser may write everywhere."""
    config = tmp_path / "config.yaml"

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=rf"bundle: cannot be written \({os.strerror(number)}\)"):
        write_brightness(tmp_path / "bundle", 1.0)
    assert list(tmp_path.iterdir()) == [config]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "bundle").write_text("a file")
    with pytest.raises(InputError, match="is a file; expected a folder"):
        write_brightness(tmp_path / "bundle", 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "portable"), PORTABLES.items())
def test_the_network_for_another_runtime_is_verified(tmp_path, kind, portable):
    bundle = write_brightness(tmp_path / "bundle", 4.0, portable=kind)
    assert verify_bundle(bundle).differences[f"{portable.name}/probability"] <= 1e-5
    other = write_brightness(tmp_path / "other", 4.001, portable=kind)
    shutil.copy(other / portable.name, bundle)
    fails(bundle, rf"{re.escape(portable.name)} does not match its checksum")
    changed = file_sha256(bundle / portable.name)
    change_metadata(bundle, lambda content: content["sha256"].update({portable.name: changed}))
    fails(bundle, rf"{portable.runtime} computes otherwise .*latent_mean by .* without --format")
