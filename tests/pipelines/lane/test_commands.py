"""The steps of the lane application: what they write and say, and what they refuse."""

import json
import re
import shutil
import sys
from io import StringIO
from pathlib import Path

import keras
import numpy as np
import pytest
from rich.console import Console
from scipy import special

from data_prep.errors import InputError
from data_prep.files.images import read_image, write_picture
from data_prep.lane.dataset import lane_images
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared.manifest import file_sha256, load_manifest
from data_prep.splits.divide import manifest_splits
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.saved_model import load_signatures, verify_bundle
from pipelines.command.steps import StepCall
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.evaluation.export import export as export_run
from pipelines.lane import commands as lane_commands
from pipelines.lane.application import LANE
from pipelines.lane.prediction import LANE_PREDICTION
from pipelines.lane.settings import LaneRun, PredictSettings
from pipelines.runs.description import load_run
from pipelines.runs.familiarity import load_familiarity
from pipelines.runs.guarantees import RUN_GUARANTEES, RunGuarantees, held_out_errors, read_guarantees
from pipelines.runs.models import load_model
from pipelines.runs.settings import EvaluateSettings, ExportSettings
from tests.pipelines.tiny_lane import SETTINGS, SIZE, export, job, prepare, quiet, train

QUICK = EvaluateSettings(resamples=100)


def evaluate(data: Path, model: Path, out: Path, **settings: object) -> object:
    return evaluate_run(
        LANE, QUICK.model_copy(update=settings), data=data, model=model, out=out, console=quiet()
    )


# Prepare ----------------------------------------------------------------------------------------------------


def test_prepare_says_what_it_wrote_and_left_out(lane_data, tmp_path):
    scenes = Path(shutil.copytree(lane_data.parent / "scenes", tmp_path / "scenes"))
    for number in range(12):
        (scenes / "images" / f"alone_{number:02d}.png").write_bytes(b"")
    console = quiet()
    settings = LanePrepareSettings(size=SIZE, lane_values=(255,), ignore_values=(77,))
    out = tmp_path / "prepared [1]"
    lane_commands.prepare(
        StepCall(settings, console, 1, None), images=scenes / "images", masks=scenes / "masks", out=out
    )
    text = console.file.getvalue()
    assert f"10 examples of 16 x 24 written to {out}" in text
    assert text.count("Left out: ") == 10
    assert f"... and 2 more; see {out / 'skipped.csv'}" in text
    assert load_manifest(out, LaneManifest).num_examples == 10


# Evaluate ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(lane_data, lane_run) -> Path:
    out, console = lane_run.parent / "evaluation", quiet()
    evaluate_run(LANE, QUICK, data=lane_data, model=lane_run, out=out, console=console)
    said = f"Report: {out / 'report.html'}; every number: {out / 'metrics.json'}\n"
    assert console.file.getvalue().endswith(said)
    warnings = json.loads((out / "metrics.json").read_text())["warnings"]
    assert warnings
    assert all(f"Warning: {warning}\n" in console.file.getvalue() for warning in warnings)
    return out


@pytest.mark.slow
def test_metrics_parse_and_hold_every_row(judged, lane_run):
    metrics = json.loads((judged / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    run = load_run(lane_run, LaneRun)
    assert metrics["data"] == {"split": "test", "images": 2, "groups": 2, "size": "16 x 24", **run.counts}
    assert "So few selection examples (2)" in " ".join(metrics["warnings"])
    assert metrics["settings"]["network"] == SETTINGS.network
    of = {c["method"] for c in metrics["comparisons"]}
    assert of == {metrics["chosen"]}
    assert {c["baseline"] for c in metrics["comparisons"]} == metrics["methods"].keys() - of
    for method in metrics["methods"].values():
        assert 0 <= method["scores"]["f_measure"] <= 1
        assert method["seconds_per_image"] > 0
    linear, tempered, *_ = metrics["methods"].values()
    assert linear["scores"]["accuracy"] == tempered["scores"]["accuracy"]
    assert linear["scores"]["nll"] != tempered["scores"]["nll"]


@pytest.mark.slow
def test_an_existing_evaluation_is_not_overwritten(lane_data, lane_run, judged):
    before = (judged / "metrics.json").read_bytes()
    with pytest.raises(InputError, match=r"already holds an evaluation\. Give another --out"):
        evaluate(lane_data, lane_run, judged)
    assert (judged / "metrics.json").read_bytes() == before


@pytest.mark.slow
def test_the_report_needs_no_other_file(judged):
    html = (judged / "report.html").read_text(encoding="utf-8")
    links = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", html)
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    assert "url(" not in re.sub(r"url\((#|[\"']?data:)", "", html)
    assert "<script src" not in html
    assert {path.name for path in judged.iterdir()} == {"metrics.json", "report.html"}


@pytest.mark.slow
def test_a_folder_prepared_only_to_be_judged_needs_no_selection_part(lane_data, lane_run, tmp_path):
    """All but one example are to judge by: from a single one no selection part can be taken."""
    scenes, out = lane_data.parent / "scenes", tmp_path / "judged"
    settings = LanePrepareSettings(size=SIZE, test_fraction=0.95, ignore_values=(77,), lane_values=(255,))
    manifest = prepare_lane(scenes / "images", scenes / "masks", out, settings).manifest
    assert sum(example.split == "train" for example in manifest.examples) == 1
    evaluation = evaluate(out, lane_run, tmp_path / "evaluation")
    assert evaluation.data["images"] == 9
    with pytest.raises(InputError, match="no selection part can be taken"):
        evaluate(out, lane_run, tmp_path / "none", split="selection")


@pytest.mark.slow
def test_the_selection_part_and_the_training_part_are_marked_as_seen(lane_data, lane_run, tmp_path):
    for split, what in (("selection", "chose the best epoch by"), ("train", "was fitted to")):
        evaluation = evaluate(lane_data, lane_run, tmp_path / split, split=split)
        assert f"Judged on the {split} part, which training {what}" in evaluation.all_warnings[0]
    assert not any("Judged" in text for text in evaluate(lane_data, lane_run, tmp_path / "t").all_warnings)


@pytest.mark.slow
def test_a_fold_that_was_trained_on_is_marked(lane_data, lane_run, tmp_path):
    scenes = lane_data.parent / "scenes"
    settings = LanePrepareSettings(size=SIZE, folds=2, lane_values=(255,), ignore_values=(77,))
    data = tmp_path / "folds"
    prepare_lane(scenes / "images", scenes / "masks", data, settings)
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    description = load_run(run, LaneRun)
    seen = evaluate(data, run, tmp_path / "other data", fold=1)
    assert not any("Judged" in text for text in seen.all_warnings)
    description.model_copy(update={"manifest_sha256": file_sha256(data / "manifest.json")}).save(run)
    seen = evaluate(data, run, tmp_path / "seen", fold=1)
    assert "Judged on the fold 1 part, which training was fitted to" in seen.all_warnings[0]
    unseen = evaluate(data, run, tmp_path / "unseen", fold=0)
    assert not any("Judged" in text for text in unseen.all_warnings)


@pytest.mark.slow
def test_what_was_trained_on_is_noticed_in_a_folder_prepared_anew(lane_data, lane_run, tmp_path):
    scenes = Path(shutil.copytree(lane_data.parent / "scenes", tmp_path / "scenes"))
    for path in [*scenes.glob("images/*"), *scenes.glob("masks/*")]:
        path.rename(path.with_stem(f"renamed_{path.stem}"))
    settings = LanePrepareSettings(size=SIZE, test_fraction=1, ignore_values=(77,), lane_values=(255,))
    prepare_lane(scenes / "images", scenes / "masks", tmp_path / "data", settings)
    seen = evaluate(tmp_path / "data", lane_run, tmp_path / "seen")
    assert "8 of the 10 images were used in training, to fit the model or to choose" in seen.all_warnings[0]


def test_evaluation_refuses_what_it_cannot_judge(lane_data, lane_run, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="is no training run"):
        evaluate(lane_data, lane_data, out)
    with pytest.raises(InputError, match=r"manifest\.json: cannot be read"):
        evaluate(lane_run, lane_run, out)
    scenes = lane_data.parent / "scenes"
    for name, settings, message in (
        (
            "large",
            {"size": (20, 24)},
            r"has images of \(20, 24\), but .* trained on \(16, 24\)\. .* --size 16x24",
        ),
        ("untested", {"size": SIZE, "test_fraction": 0.0}, "has no test example. Prepare it with one"),
    ):
        prepare_lane(
            scenes / "images",
            scenes / "masks",
            tmp_path / name,
            LanePrepareSettings(**settings, lane_values=(255,), ignore_values=(77,)),
        )
        with pytest.raises(InputError, match=message):
            evaluate(tmp_path / name, lane_run, out)
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    load_run(run, LaneRun).model_copy(update={"heads": ()}).save(run)
    with pytest.raises(
        InputError, match=r"run has no trained head yet\. Continue its training with --resume"
    ):
        evaluate(lane_data, run, out)
    with pytest.raises(InputError, match="has no trained head yet"):
        export(run, out)
    load_run(lane_run, LaneRun).save(run)
    (run / "config.yaml").write_text("network: [")
    with pytest.raises(InputError, match=r"config\.yaml"):
        evaluate(lane_data, run, out)
    assert not out.exists()


# Export -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_chosen_head_is_exported_unless_another_is_named(lane_bundle, lane_run, tmp_path):
    assert load_metadata(lane_bundle).head == "hierarchical Gaussian process"
    assert load_run(lane_run, LaneRun).choice.head == "hgp"
    assert load_metadata(export(lane_run, tmp_path / "a", head=None)).head == "hierarchical Gaussian process"
    assert load_metadata(export(lane_run, tmp_path / "b", head="linear")).head == "linear"
    assert load_metadata(lane_bundle).pool_temperature is None
    with pytest.raises(InputError, match=r"has no trained head 'svgp', but linear, hgp\. Choose one of them"):
        export(lane_run, tmp_path / "c", head="svgp")
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_the_bundle_predicts_what_the_run_does(lane_bundle, lane_run, tmp_path):
    """Folding, tracing and saving change nothing but rounding."""
    run = load_run(lane_run, LaneRun)
    model = load_model(job(lane_run), "hgp")
    model.head.set_temperature(run.temperatures["hgp"])
    image = LANE.deployment.sample(run, keras.Sequential())[: SIZE[0], : SIZE[1]]
    served = load_signatures(lane_bundle)["serving_default"](images=image[None])
    for name, value in model(image[None].astype(np.float32)).items():
        tolerance = 0.01 if name == "label" else 1e-3
        assert np.mean(np.abs(served[name].numpy() - value.numpy())) <= tolerance, name
    told = load_metadata(lane_bundle).training_data["temperature"]
    assert told == f"{run.temperatures['hgp']:.4g}, fitted on the held-out examples"
    plain = load_signatures(export(lane_run, tmp_path / "plain", tempered=False))["serving_default"]
    p, tempered = plain(images=image[None])["probability"].numpy(), served["probability"].numpy()
    temperature = run.temperatures["hgp"]
    assert abs(temperature - 1.0) > 1e-3
    np.testing.assert_allclose(special.logit(tempered), special.logit(p) / temperature, atol=1e-5)


def test_an_existing_bundle_is_refused_before_the_work(lane_bundle, lane_run, monkeypatch):
    monkeypatch.setattr("pipelines.evaluation.export.load_model", pytest.fail)
    with pytest.raises(InputError, match="already exists"):
        export(lane_run, lane_bundle)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "tf2onnx"])
def test_a_package_that_a_format_lacks_is_named_before_the_work(lane_run, tmp_path, monkeypatch, package):
    monkeypatch.setattr("pipelines.evaluation.export.load_model", pytest.fail)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package}, which is not installed.*gpimaging\[onnx\]"):
        export(lane_run, tmp_path / "bundle", format="onnx")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"metrics\.json cannot be read \(.*No such file"),
        (b"{", r"metrics\.json cannot be read"),
        (b"\xff", r"metrics\.json cannot be read"),
        (b"[1]", r"metrics\.json holds no JSON object"),
        (b'{"nll": NaN}', r"metrics\.json cannot be read \(NaN is no JSON\)"),
    ],
)
def test_metrics_that_cannot_be_enclosed(lane_run, tmp_path, content, message):
    path = tmp_path / "metrics.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{message}.* Pass the metrics\.json of an evaluation"):
        export(lane_run, tmp_path / "bundle", metrics=path)
    assert not (tmp_path / "bundle").exists()


def test_the_sample_is_larger_than_the_network_and_shows_a_lane(lane_run):
    run = load_run(lane_run, LaneRun)
    image = LANE.deployment.sample(run, keras.Sequential())
    assert image.shape == (24, 36, 3)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, LANE.deployment.sample(run, keras.Sequential()))


# Predict ----------------------------------------------------------------------------------------------------


def test_predict_writes_files_and_a_summary(lane_bundle, lane_data, tmp_path):
    console, images = quiet(), lane_data.parent / "scenes" / "images"
    lines = LANE_PREDICTION(
        PredictSettings(refer_above=0.0),
        inputs=[images],
        model=lane_bundle,
        out=tmp_path / "out",
        console=console,
    )
    assert len(lines) == 10
    assert all(line.referred for line in lines)
    text = console.file.getvalue()
    assert re.search(
        rf"10 predictions written to {tmp_path / 'out'}, \d+\.\d\d s each, 10 referred to a person", text
    )


def test_predict_refuses_what_is_no_bundle(lane_run, tmp_path):
    image = tmp_path / "a.png"
    image.touch()
    with pytest.raises(InputError, match="is no bundle"):
        LANE_PREDICTION(
            PredictSettings(), inputs=[image], model=lane_run, out=tmp_path / "o", console=quiet()
        )
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_data_of_another_seed_can_be_judged(lane_run, tmp_path):
    """As the demo does: scenes that were not even prepared together."""
    data = prepare(tmp_path, count=5, seed=3)
    evaluation = evaluate(data, lane_run, tmp_path / "out")
    assert evaluation.results[0].counts["images"] == 1


@pytest.mark.slow
def test_exporting_settings_are_all_used(lane_run, tmp_path):
    metrics = tmp_path / "metrics.json"
    metrics.write_text('{"a": 1}')
    out = tmp_path / "bundle"
    export_run(
        LANE,
        ExportSettings(head="linear", tempered=False),
        model=lane_run,
        out=out,
        metrics=metrics,
        overwrite=True,
        console=quiet(),
    )
    assert json.loads((out / "metrics.json").read_text()) == {"a": 1}


# Guarantees -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_guarantee_is_made_stored_and_kept(judged, lane_data, lane_run, tmp_path):
    """Two selection images can guarantee nothing but 0.9 and more: 1 - 0.9² < 1 / 40."""
    console, images = quiet(), lane_data.parent / "scenes" / "images"
    bundle = export(lane_run, tmp_path / "bundle")  # straight after the training
    record = load_metadata(bundle).guarantee
    assert (record.judged, record.units, record.noun) == ("images", 2, "images")
    assert [error for error, _ in record.thresholds][-1] == 0.95
    written = json.loads((judged / "metrics.json").read_text())["methods"]["HGP + temperature"]["guarantee"]
    assert [list(pair) for pair in record.thresholds] == written["table"]
    threshold = record.threshold(0.95)[1]
    selection = manifest_splits(
        load_manifest(lane_data, LaneManifest), selection_fraction=SETTINGS.selection_fraction
    ).selection
    model = load_model(job(lane_run), "hgp")
    model.head.set_temperature(load_run(lane_run, LaneRun).temperatures["hgp"])
    entropies = [
        model(image[None].astype(np.float32))["predictive_entropy"].numpy().mean()
        for _, image in lane_images(lane_data, load_manifest(lane_data, LaneManifest), selection)
    ]
    assert threshold == pytest.approx(max(entropies), rel=1e-3)
    lines = LANE_PREDICTION(
        PredictSettings(max_error=0.95), inputs=[images], model=bundle, out=tmp_path / "out", console=console
    )
    assert [line.referred for line in lines] == [line.mean_entropy > threshold for line in lines]
    assert "of all pixels of the images below that at most 0.95 are wrong" in console.file.getvalue()
    with pytest.raises(InputError, match=r"There were 2 images .* at least 183 are needed"):
        LANE_PREDICTION(
            PredictSettings(max_error=0.02),
            inputs=[images],
            model=bundle,
            out=tmp_path / "o",
            console=quiet(),
        )
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_the_guarantees_of_another_model_are_not_stored(judged, lane_run, tmp_path, monkeypatch):
    metrics = json.loads((judged / "metrics.json").read_text())
    tempered = metrics["methods"]["Linear + temperature"]["guarantee"]["source"]
    linear = load_metadata(
        export(lane_run, tmp_path / "linear", metrics=judged / "metrics.json", head="linear", tempered=False)
    )
    assert tempered["temperature"] == load_run(lane_run, LaneRun).temperature
    assert linear.guarantee.thresholds[0][1] == metrics["methods"]["Linear"]["guarantee"]["table"][0][1]
    for method in metrics["methods"].values():
        method["guarantee"]["source"]["weights_sha256"] = "0"
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    kept = read_guarantees(lane_run)
    others = [
        entry.model_copy(update={"source": entry.source | {"weights_sha256": "0"}}) for entry in kept.heads
    ]
    monkeypatch.setattr(
        "pipelines.evaluation.export.read_guarantees", lambda _: RunGuarantees(heads=tuple(others))
    )
    assert (
        load_metadata(export(lane_run, tmp_path / "b", metrics=tmp_path / "metrics.json")).guarantee is None
    )


@pytest.mark.slow
def test_a_resumed_run_computes_the_guarantees_of_new_heads_and_keeps_the_others(
    lane_run, lane_data, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(lane_run, run)
    before = read_guarantees(run)
    assert [entry.source["head"] for entry in before.heads] == list(load_run(run, LaneRun).heads)
    left = before.model_copy(update={"heads": before.heads[:1]})
    (run / RUN_GUARANTEES).write_text(left.model_dump_json())
    asked = []
    monkeypatch.setattr(
        "pipelines.runs.guarantees.held_out_errors",
        lambda job, method: (asked.append(method.title), held_out_errors(job, method))[1],
    )
    train(lane_data, run, resume=True)
    assert read_guarantees(run) == before
    assert len(asked) == len(before.heads) - 1


@pytest.mark.slow
def test_no_guarantee_is_made_by_a_folder_that_the_run_was_not_trained_with(lane_run, tmp_path):
    evaluation = evaluate(prepare(tmp_path, count=5, seed=3), lane_run, tmp_path / "out")
    assert not evaluation.guarantees
    assert "is another one" in evaluation.no_guarantee


# Familiarity ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bundles_say_how_familiar_each_pixel_is(lane_bundle, lane_data, lane_run, tmp_path):
    images = sorted((lane_data.parent / "scenes" / "images").iterdir())
    assert verify_bundle(lane_bundle).worst <= 1e-3
    image = read_image(images[0])
    maps = load_signatures(lane_bundle)["serving_default"](images=image[None])
    familiarity = maps["familiarity"].numpy()[0]
    assert familiarity.shape == image.shape[:2]
    held_out = load_familiarity(lane_run / "heads" / "hgp")
    assert held_out.held_out.size == 2 * 32  # random pixels of the two selection images
    assert held_out.num_groups == 2
    assert 1 / 3 - 1e-6 <= familiarity.min() <= familiarity.max() <= 1
    (line,) = LANE_PREDICTION(
        PredictSettings(), inputs=images[:1], model=lane_bundle, out=tmp_path / "out", console=quiet()
    )
    assert line.familiarity == pytest.approx(
        min(1.0, 2 * np.sort(familiarity.ravel())[familiarity.size // 2])
    )
    assert load_metadata(lane_bundle).least_familiarity == pytest.approx(1 / 3)
    assert line.unfamiliar is line.unfamiliar_fraction is None  # of two groups nothing can be below 0.01
    header = (tmp_path / "out" / "predictions.csv").read_text().splitlines()[0]
    assert ",referred,familiarity,unfamiliar,unfamiliar_fraction,seconds," in header


@pytest.mark.slow
def test_an_export_says_which_head_it_took_and_that_few_held_out_groups_flag_nothing(lane_run, tmp_path):
    console = Console(file=StringIO(), width=200)
    export_run(
        LANE,
        ExportSettings(),
        model=lane_run,
        out=tmp_path / "b",
        metrics=None,
        overwrite=False,
        console=console,
    )
    said = console.file.getvalue()
    assert (
        "cannot call an input unfamiliar: its familiarity rests on 2 groups, and at least 100 are needed"
        in said
    )
    assert "Take the hgp head: of the held-out images (2 groups) " in said
    assert (
        "The hgp head, which the run chose (--set head=linear takes another), is written as a bundle" in said
    )
    assert "the run keeps no" not in said


@pytest.mark.slow
def test_a_run_of_an_earlier_version_is_exported_as_it_was(lane_run, tmp_path):
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    description = json.loads((run / "run.json").read_text())
    for key in ("choice", "pool_temperatures", "calibrates_pools"):
        del description[key]
    (run / "run.json").write_text(json.dumps(description))
    console = Console(file=StringIO(), width=200)
    export_run(
        LANE, ExportSettings(), model=run, out=tmp_path / "b", metrics=None, overwrite=False, console=console
    )
    assert load_metadata(tmp_path / "b").head == "hierarchical Gaussian process"
    assert "The hgp head, the last of the run (--set head=linear takes another; " in console.file.getvalue()


@pytest.mark.slow
def test_runs_of_earlier_versions_make_bundles_without_familiarity(lane_run, tmp_path):
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    (run / "heads" / "hgp" / "familiarity.safetensors").unlink()
    (run / "heads" / "hgp" / "held_out.npz").unlink()
    console = Console(file=StringIO(), width=200)
    bundle = tmp_path / "bundle"
    export_run(LANE, ExportSettings(), model=run, out=bundle, metrics=None, overwrite=False, console=console)
    for lacking in ("held_out.npz, from which predict ", "familiarity, by which predict "):
        assert f"Warning: the run keeps no {lacking}" in console.file.getvalue()
    assert "familiarity" not in load_metadata(bundle).signatures["serving_default"].outputs
    assert verify_bundle(bundle).worst <= 1e-3


def test_a_damaged_familiarity_is_named(lane_run, tmp_path):
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    (run / "heads" / "hgp" / "familiarity.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"familiarity\.safetensors cannot be read"):
        export(run, tmp_path / "bundle")


# Unfamiliar and shifted images ------------------------------------------------------------------------------


@pytest.mark.slow
def test_unfamiliar_and_shifted_images_are_judged_by_every_method(lane_data, lane_run, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        write_picture(folder / f"{number}.png", noise)
    (folder / "damaged.png").write_bytes(b"no image")
    out = tmp_path / "out"
    evaluation = evaluate(lane_data, lane_run, out, unfamiliar=folder, shifted=True, shifted_examples=1)
    methods = json.loads((out / "metrics.json").read_text())["methods"]
    for name, method in methods.items():
        assert method["unfamiliar"]["number"] == 3
        assert set(method["unfamiliar"]["scores"]) == {
            *("predictive_entropy", "mutual_information", "latent_variance", "familiarity_distance")
        }
        assert len(method["shifted"]) == 5 * 6
        unshifted = [row["nll"] for row in method["shifted"] if row["strength"] == 0]
        assert len(set(unshifted)) == 1
        assert name in evaluation.shifted
    page = (out / "report.html").read_text()
    assert "Is it noticed when something else comes?" in page
    assert "What if light, focus or camera change?" in page


@pytest.mark.slow
def test_images_that_the_run_learned_from_are_not_unfamiliar(lane_data, lane_run, tmp_path):
    scenes = lane_data.parent / "scenes" / "images"
    with pytest.raises(InputError, match=r"the run learned from 8 of the 10 images \(.*not unfamiliar"):
        evaluate(lane_data, lane_run, tmp_path / "out", unfamiliar=scenes)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="No image in"):
        evaluate(lane_data, lane_run, tmp_path / "out", unfamiliar=lane_run / "heads")
