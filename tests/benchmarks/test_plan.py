import numpy as np

from benchmarks.tabular.datasets import load_datasets
from benchmarks.tabular.methods import METHODS
from benchmarks.tabular.plan import DatasetFacts, dataset_facts, inducing_grid, inducing_points, plan_cells


def facts(name: str, task: str = "classification", rows: int = 1000, train: int = 900) -> DatasetFacts:
    num_classes = 2 if task == "classification" else 0
    return DatasetFacts(name, task, rows, 4, num_classes, train, 10, "0")


def plan(*datasets: DatasetFacts, tables=("classification", "regression"), methods=("hgp", "svm"), folds=2):
    return plan_cells(
        datasets, tables=tables, methods=methods, num_folds=folds, seeds=[0], max_iterations=None
    )


def test_inducing_points_follow_the_thesis():
    assert inducing_points(facts("ctg", train=1914)) == 48
    assert inducing_points(facts("kin40k", "regression", train=10000)) == 500
    assert inducing_points(facts("tiny", train=40)) == 10
    assert inducing_grid(facts("ctg", train=1913))[:2] == [(19, 19), (19, 38)]
    assert inducing_grid(facts("spambase")) == []
    assert inducing_grid(facts("pole_telecom", "regression"))[-1] == (200, 200)


def test_methods_take_turns_and_cheap_folds_come_first():
    cells = plan(facts("dear", train=4000), facts("cheap", train=500))
    assert [(cell.dataset, cell.fold, cell.method) for cell in cells] == [
        ("cheap", 0, "hgp"), ("cheap", 0, "svm"), ("cheap", 1, "hgp"), ("cheap", 1, "svm"),
        ("dear", 0, "hgp"), ("dear", 0, "svm"), ("dear", 1, "hgp"), ("dear", 1, "svm"),
    ]  # fmt: skip


def test_methods_get_only_what_they_can_do():
    cells = plan(facts("line", "regression"), methods=tuple(METHODS), folds=1)
    assert {cell.table for cell in cells} == {"regression"}
    able = {key for key, method in METHODS.items() if "regression" in method.tasks}
    assert {cell.method for cell in cells} == able
    assert not able & {"svm", "hgp_w1", "laplace_gp", "forest"}
    curves = plan(facts("a"), tables=("time_accuracy",), methods=tuple(METHODS), folds=5)
    assert {cell.method for cell in curves} == {key for key, method in METHODS.items() if method.records}
    assert {cell.fold for cell in curves} == {0}


def test_the_grid_is_of_the_hgp_alone():
    cells = plan(facts("wfrn"), tables=("inducing_points",), folds=1)
    assert len(cells) == 9
    assert {cell.method for cell in cells} == {"hgp"}
    assert len({cell.name for cell in cells}) == 9


def test_numbers_of_experts_and_rows_make_cells_of_their_own():
    options = {"num_folds": None, "seeds": [0, 1], "max_iterations": None, "num_inducing": 7}
    methods = ("hgp", "svgp")
    cells = plan_cells([facts("a")], tables=["experts"], methods=methods, experts=(0, 3, 9), **options)
    assert {(cell.method, cell.num_experts) for cell in cells} == {("svgp", 0), ("hgp", 3), ("hgp", 9)}
    assert {(cell.fold, cell.num_inducing) for cell in cells} == {(0, 7)}
    assert "experts--a--hgp--fold0--seed1--m7--t9" in {cell.name for cell in cells}
    rows = plan_cells([facts("a", train=5000)], tables=["rows"], methods=methods, experts=(5,), **options)
    assert [cell.num_train for cell in rows if cell.seed == 0] == [1000, 1000, 3000, 3000]
    assert {cell.num_experts for cell in rows if cell.method == "hgp"} == {5}
    assert len({cell.name for cell in rows}) == len(rows)


def test_a_set_can_be_cut_otherwise(tmp_path):
    np.savez(tmp_path / "large.npz", X=np.zeros([6000, 1]), y=np.arange(6000) % 2)
    (dataset,) = load_datasets(tmp_path / "large.npz")
    usual, thesis = dataset_facts(dataset), dataset_facts(dataset, cut=10)
    assert (usual.num_folds, usual.num_train) == (3, 4000)
    assert (thesis.num_folds, thesis.num_train) == (10, 5400)
    cells = plan(thesis, methods=("svm",), folds=None)
    assert [(cell.fold, cell.num_folds) for cell in cells] == [(k, 10) for k in range(10)]
