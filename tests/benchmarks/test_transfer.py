"""The benchmark of transfer: its rows, its draws, its methods, and what its reports say."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from benchmarks.transfer import office_cells, speed_report, tissue_cells
from benchmarks.transfer.__main__ import _restore as restore
from benchmarks.transfer.__main__ import main as transfer_main
from benchmarks.transfer.checks import paired, split_means
from benchmarks.transfer.methods import METHODS, PooledClassifier, measures
from benchmarks.transfer.office import FILES, FOLDER, Split, load_split, projected
from benchmarks.transfer.office_report import by_method, checks, paper_rows, table, write
from benchmarks.transfer.paper import TABLE_1
from benchmarks.transfer.plan import DIRECTIONS, LABELS, PAIRS, Cell
from benchmarks.transfer.tissue import Tissue, draw, image_mean, tissue_measures
from benchmarks.transfer.tissue_report import checks as tissue_checks
from benchmarks.transfer.tissue_report import problems
from benchmarks.transfer.tissue_report import table as tissue_table

NUM_CLASSES = 4


@pytest.fixture
def office(tmp_path):
    """Files like Office-Caltech's: four classes, twelve images of each in three domains, two splits."""
    folder = tmp_path / "data" / FOLDER
    (folder / "splits_hoffman").mkdir(parents=True)
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(NUM_CLASSES), 12)
    for file in FILES.values():
        counts = rng.poisson(1.0 + 4.0 * rng.random((NUM_CLASSES, 30)))[label] + rng.poisson(2.0, (48, 30))
        savemat(folder / f"{file}.mat", {"fts": counts.astype(np.uint8), "labels": (label + 1)[:, None]})
    chosen = np.flatnonzero(np.arange(48) % 12 < 3)
    others = np.setdiff1d(np.arange(48), chosen)
    for source in FILES:
        for target in set(FILES) - {source}:

            def cells(rows):
                out = np.empty((1, 20), dtype=object)
                for k in range(20):
                    out[0, k] = (rows[None] + 1).astype(np.uint16)
                return out

            source_rows = np.flatnonzero(np.arange(48) % 12 < 8)
            savemat(
                folder / "splits_hoffman" / f"SameCategory_{source}-{target}_20RandomTrials_10Categories.mat",
                {
                    "train": {"source": cells(source_rows), "target": cells(chosen)},
                    "test": {"source": cells(others), "target": cells(others)},
                },
            )
    load_split.cache_clear()
    return tmp_path / "data"


def test_a_split_has_the_rows_of_its_file(office):
    split = load_split(office, "webcam-amazon", 0, "transductive")
    assert (split.sample_domain >= 0).sum() == 32
    assert (split.sample_domain < 0).sum() == 12
    assert len(split.test_x) == len(split.test_label) == 36
    assert np.bincount(split.label[split.sample_domain < 0]).tolist() == [3] * NUM_CLASSES
    both = load_split(office, "webcam-amazon", 0, "transductive", all_sources=True)
    assert np.unique(both.sample_domain).tolist() == [-1, 0, 1]
    np.testing.assert_allclose(both.wide_x[:32], split.wide_x[:32])


def test_columns_are_standardised_over_the_domain_and_projected_without_centring():
    rng = np.random.default_rng(0)
    whole = 3.0 + rng.normal(size=(40, 25)) * 5.0
    source = rng.normal(size=(30, 25))
    label = np.arange(40) % 2
    split = projected(
        [(source, source), (whole[:10], whole)],
        [label[:30], label[:10]],
        whole[10:],
        label[10:],
        is_transductive=True,
    )
    target = np.concatenate([split.wide_x[30:], split.wide_test_x])
    np.testing.assert_allclose(target.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(target.std(axis=0), 1.0)
    everything = np.concatenate([split.wide_x, split.wide_test_x])
    components = np.linalg.svd(everything - everything.mean(axis=0), full_matrices=False)[2][:20]
    np.testing.assert_allclose(np.abs(split.x), np.abs(split.wide_x @ components.T), atol=1e-8)


def test_the_inductive_protocol_does_not_see_judged_rows(office):
    split = load_split(office, "webcam-amazon", 0, "inductive")
    target = split.wide_x[split.sample_domain < 0]
    np.testing.assert_allclose(target.mean(axis=0), 0.0, atol=1e-12)
    assert not split.unlabelled
    transductive = load_split(office, "webcam-amazon", 0, "transductive")
    assert np.abs(transductive.wide_x[transductive.sample_domain < 0].mean(axis=0)).max() > 0.05


def easy_split() -> Split:
    """Two classes, whose source is turned round, beside ten labelled target rows."""
    rng = np.random.default_rng(0)
    label = np.arange(80) % 2
    x = np.where(label[:, None] > 0, 2.0, -2.0) + rng.normal(size=(80, 3))
    domain = np.repeat([0, -1], [60, 20])
    x[:60] *= -1.0
    test_label = np.arange(50) % 2
    test = np.where(test_label[:, None] > 0, 2.0, -2.0) + rng.normal(size=(50, 3))
    return Split(x, label, domain, test, test_label, x, test, unlabelled=True)


def test_weights_say_who_is_learned_from():
    split = easy_split()

    def accuracy(**weights):
        model = PooledClassifier(machine="linear", cost=0.1, **weights)
        model.fit(split.x, split.label, sample_domain=split.sample_domain)
        return float((model.predict(split.test_x) == split.test_label).mean())

    assert accuracy(source_weight=0.0) > 0.9
    assert accuracy(target_weight=0.0) < 0.1
    assert accuracy(source_weight=0.01) > 0.9


@pytest.mark.parametrize("key", ["svm", "logistic_chosen", "icm", "fmtl", "mmdt", "gfk", "ngp_t", "atl"])
def test_methods_give_probabilities(key):
    split = easy_split()
    probability = METHODS[key].probability(split, 0)
    assert probability.shape == (50, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    # the nearest row is one of the source, which is turned round: others learn from the target too
    assert (measures(split.test_label, probability)["accuracy"] > 50.0) == (key != "gfk")


def test_what_is_not_installed_is_not_available():
    assert METHODS["svm"].is_available
    missing = METHODS["coral"].__class__("a", METHODS["svm"].probability, needs="no_such_package_here")
    assert not missing.is_available
    later = METHODS["coral"].__class__("a", METHODS["svm"].probability, needs="numpy:ndarray_of_the_future")
    assert not later.is_available


def test_cells_have_files_of_their_own():
    cells = [*office_cells.cells_of(list(METHODS)), *tissue_cells.cells_of(["atl", "svm"])]
    assert len({cell.file for cell in cells}) == len(cells)
    assert not any(cell.method == "atl_two" and "inductive" in cell.problem for cell in cells)


def test_a_cell_has_scores_of_each_split(office, tmp_path, monkeypatch):
    monkeypatch.setattr(office_cells, "NUM_SPLITS", 2)
    record = office_cells.compute(Cell("office", "icm_5", "transductive webcam-amazon"), office, tmp_path)
    assert len(record["splits"]) == 2
    assert set(record["splits"][0]) == {"accuracy", "nll", "ece", "seconds"}
    assert record["splits"][0]["accuracy"] > 40.0


def office_records(**accuracy: float) -> list[dict]:
    """Records of methods with a mean accuracy, the same over pairs but for a little noise over splits."""
    records = []
    for method, mean in accuracy.items():
        for number, pair in enumerate(PAIRS):
            rng = np.random.default_rng(number)
            splits = [
                {"accuracy": mean + noise, "nll": 2.0 - mean / 100.0, "ece": 0.1, "seconds": 0.01}
                for noise in rng.normal(size=20)
            ]
            title, is_own = METHODS[method].title, METHODS[method].is_own
            records.append(
                {"method": method, "problem": f"transductive {pair}", "title": title, "is_own": is_own,
                 "splits": splits}
            )  # fmt: skip
    return records


def test_checks_say_what_is_met_and_what_is_not():
    good = checks(by_method(office_records(atl=75.0, ngp_t=60.0, svm=62.0), "transductive"))
    assert all(check.is_met for check in good)
    bad = checks(by_method(office_records(atl=55.0, ngp_t=54.0, svm=70.0), "transductive"))
    met = {check.wanted.split(" ")[0]: check.is_met for check in bad}
    assert not met["mean"]
    assert not met["no"]
    assert not met["at"]
    assert met["above"]
    assert "70" not in next(check for check in bad if check.wanted.startswith("no peer")).measured
    assert "by 15.00" in next(check for check in bad if check.wanted.startswith("no peer")).measured


def test_tables_have_the_best_first_and_the_papers_columns(tmp_path, capsys):
    records = office_records(atl=58.0, svm=57.0)
    records = [*records, *office_records(ngp_t=50.0)[:2]]  # two pairs alone
    rows = table(by_method(records, "transductive"))
    assert [row["method"] for row in rows][:2] == ["ATL-DGP, exact limit", METHODS["svm"].title]
    assert rows[2]["mean"] == ""
    assert rows[1]["accuracy minus ATL's"].startswith("-1.00")
    assert paper_rows()[-1]["mean"] == "53.08"
    assert list(TABLE_1) == list(PAIRS)
    write(tmp_path, office_records(atl=58.0, ngp_t=50.0, svm=57.0))
    assert {path.name for path in tmp_path.glob("*.md")} == {"office_transductive.md", "office_checks.md"}
    assert json.loads((tmp_path / "office_checks.json").read_text())["rows"][0]["met"] == "yes"
    assert "six pairs" in capsys.readouterr().out


def test_paired_differences_need_the_same_splits():
    assert split_means(office_records(svm=57.0), "accuracy")[0] == pytest.approx(57.0, abs=1.5)
    with pytest.raises(ValueError, match="same ones"):
        paired([1.0, 2.0], [1.0])


def organs() -> tuple[Tissue, Tissue]:
    """Two organs of eight groups, three images of each class in each, six patches an image."""
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(48), 6)
    label = (image % 6 >= 3).astype(np.intp)
    group = (image // 6).astype(np.intp)
    made = [
        Tissue(rng.normal(size=(288, 60)) + shift * label[:, None], label, image, group)
        for shift in (0.4, 0.5)
    ]
    return made[0], made[1]


@pytest.mark.parametrize(("kind", "count", "rows"), [("patches", 5, 10), ("images", 2, 24)])
def test_groups_are_labelled_or_judged_never_both(kind, count, rows):
    source, target = organs()
    for seed in range(5):
        drawn = draw(source, target, kind, count, seed)
        split = drawn.split
        is_target = split.sample_domain < 0
        assert (is_target.sum(), (~is_target).sum()) == (rows, 200)
        assert split.label[is_target].mean() == 0.5
        labelled = set((split.groups[is_target] - 200) // 6)  # images of a group are numbered one after other
        assert not labelled & set(drawn.judged_image // 6)
        assert len(split.test_x) == len(drawn.judged_image)


def test_draws_differ_by_seed_and_judge_the_same_groups_whatever_is_labelled():
    source, target = organs()
    first, more = draw(source, target, "patches", 5, 0), draw(source, target, "images", 2, 0)
    assert first.judged_image.tolist() == more.judged_image.tolist()
    assert any(
        first.judged_image.tolist() != draw(source, target, "patches", 5, seed).judged_image.tolist()
        for seed in range(1, 4)
    )


def test_too_few_groups_are_refused():
    source, target = organs()
    few = target.group < 2
    small = Tissue(target.x[few], target.label[few], target.image[few], target.group[few])
    with pytest.raises(ValueError, match="Ask for fewer images"):
        draw(source, small, "patches", 5, 0)


def test_an_image_has_the_mean_of_its_patches():
    mean, first = image_mean(np.array([0.2, 0.4, 1.0]), np.array([7, 7, 3]))
    assert mean.tolist() == pytest.approx([1.0, 0.3])
    assert first.tolist() == [2, 0]


def test_tissue_is_judged_by_patch_and_by_image():
    drawn = draw(*organs(), "patches", 5, 0)
    label = drawn.split.test_label
    scores = tissue_measures(drawn, np.stack([1.0 - 0.8 * label, 0.8 * label], axis=1))
    assert scores["auc"] == scores["image_auc"] == scores["accuracy"] == 100.0


def tissue_records(**auc: float) -> list[dict]:
    noise = np.random.default_rng(0).normal(size=20)
    return [
        {"method": method, "problem": problem, "title": METHODS[method].title,
         "splits": [{"auc": mean + one, "image_auc": mean, "accuracy": 60.0, "nll": 0.6, "ece": 0.1}
                    for one in noise]}
        for method, mean in auc.items() for problem in problems()
    ]  # fmt: skip


def found(records: list[dict]) -> dict:
    return {(record["method"], record["problem"]): record for record in records}


def test_tissue_checks_are_of_all_points():
    assert len(problems()) == len(DIRECTIONS) * len(LABELS) == 16
    assert all(check.is_met for check in tissue_checks(found(tissue_records(atl=75.0, ngp_t=70.0, svm=75.5))))
    worse = tissue_checks(found(tissue_records(atl=75.0, ngp_t=76.0, svm=77.0)))
    assert not any(check.is_met for check in worse)
    part = tissue_checks(found(tissue_records(atl=75.0, ngp_t=70.0, svm=70.0)[1:]))
    assert not part[0].is_met
    records = tissue_records(atl=75.0, svm=70.0)
    for split in records[-1]["splits"]:
        split["nll"] = 0.7
    rows = tissue_table(records)
    assert len(rows) == 32
    assert [row["NLL minus ATL's"] for row in rows[-2:]] == ["", "+0.100 (p 8e-06)"]
    assert [row["patch AUC minus ATL's"] for row in rows[-2:]] == ["", "-5.0 (p 8e-06)"]


def test_cells_of_a_report_come_back_where_they_have_no_file(tmp_path, monkeypatch):
    records = [{"part": "tissue", **record} for record in tissue_records(atl=75.0, ngp_t=70.0, svm=70.0)]
    (tmp_path / "cells").mkdir()
    (tmp_path / "tissue.json").write_text(json.dumps({"cells": records}))
    kept = tmp_path / "cells" / Cell("tissue", "atl", problems()[0]).file
    kept.write_text(json.dumps({**records[0], "title": "of the file"}))
    monkeypatch.setattr(
        "sys.argv", ["", "tissue", "--data", str(tmp_path), "--out", str(tmp_path), "--methods", "atl"]
    )
    transfer_main()  # would fail if it had to compute anything: there are no data
    report = json.loads((tmp_path / "tissue.json").read_text())
    assert len(report["cells"]) == len(report["rows"]) == len(records)
    assert [record["title"] for record in report["cells"]].count("of the file") == 1


def test_speed_checks_compare_with_their_limits():
    record = {
        "method": "atl", "rows": 110, "judged": 928, "fit_ratio": 0.05, "predict_ratio": 2.5,
        "own_fit_seconds": 0.1, "dfgp_fit_seconds": 2.0, "own_fit_wall_seconds": 0.2,
    }  # fmt: skip
    assert [check.is_met for check in speed_report.checks(record)] == [True, True, False]
    many = {"method": "many_rows", "rows": 20_030, "fit_wall_seconds": 70.0, "fit_seconds": 60.0,
            "peak_mib": 900.0, "peak_mib_before_fit": 400.0}  # fmt: skip
    assert [check.is_met for check in speed_report.checks(many)] == [False, True]


def test_a_record_whose_name_leaves_the_folder_is_refused(tmp_path):
    cell = {"part": "../tissue", "method": "svm", "problem": "breast-colon patches 5", "splits": [1.0]}
    report = tmp_path / "tissue.json"
    report.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    with pytest.raises(SystemExit, match="no name of a file"):
        restore(report, tmp_path / "cells")
