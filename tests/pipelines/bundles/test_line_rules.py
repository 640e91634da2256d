"""What a predict step does to its lines: guarantees of classes, sets, shares, and what is unfamiliar."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks.simulated_classes import simulated
from data_prep.errors import InputError
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import NO_RULES, LineRules, rules_for
from pipelines.bundles.metadata import Metadata, class_signatures, model_card, with_familiarity
from pipelines.bundles.prediction_lines import ClassPredictionLine, PredictionLine
from pipelines.command.config import load_settings
from pipelines.command.referral import ClassReferralSettings, ErrorLimit
from pipelines.lane.settings import PredictSettings
from pipelines.scores.class_guarantees import ReferralRule
from pipelines.scores.costs import CostTable
from pipelines.scores.held_out import HELD_OUT, HeldOut
from pipelines.scores.prediction_sets import PredictionSets

NAMES = ("benign", "malignant", "not normal")


def metadata(**changes) -> Metadata:
    record = GuaranteeRecord(
        confidence=0.95, judged="images", units=600, noun="images", binomial=True, thresholds=((0.1, 0.3),)
    )
    given = {
        "name": "a",
        "application": "classify",
        "head": "hgp",
        "class_names": NAMES,
        "network_size": (8, 8),
        "preprocessing": "",
        "signatures": with_familiarity(class_signatures(NAMES, single_latent=False), 0.001),
        "versions": {"gpimaging": "0.1.0"},
        "training_data": {},
        "guarantee": record,
        "intended_use": "",
        "limitations": "",
    }
    return Metadata.model_validate({**given, **changes})


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    simulated(np.random.default_rng(0), 600).write(tmp_path / HELD_OUT)
    return tmp_path


def found(bundle: Path, of: Metadata | None = None, **settings) -> tuple[Any, LineRules, str]:
    console = Console(record=True, width=500)
    given, rules = rules_for(
        load_settings(ClassReferralSettings, options=settings),
        of or metadata(),
        bundle=bundle,
        judged="images",
        console=console,
    )
    return given, rules, console.export_text()


def test_guarantees_of_classes_are_said_with_what_they_cost(bundle):
    _, rules, said = found(bundle, max_error=["malignant=0.05"], max_false=["malignant=0.1"])
    assert rules.referral is not None
    assert set(rules.referral.missed) == set(rules.referral.false) == {1}
    assert "at most 5 % of the class malignant are kept as another class; at most 10 % of" in said
    assert "for all together" in said
    assert "Each is given with 97.5 % confidence, so that all of them hold together." in said
    _, both, said = found(bundle, max_error=["0.1", "not normal=0.1"])
    assert both.referral is not None
    assert both.referral.entropy is not None
    assert "are divided into 2 parts for that, so that about 2 times as many are needed" in said


def test_one_share_of_all_classes_is_the_threshold_of_the_record(tmp_path):
    class Settings(ClassReferralSettings):
        refer_above: float | None = None

    console = Console(record=True, width=500)
    settings, rules = rules_for(
        Settings(max_error=0.1), metadata(), bundle=tmp_path, judged="images", console=console
    )
    assert settings.refer_above == 0.3  # no held-out predictions are needed, as in earlier bundles
    assert rules.referral is None


@pytest.mark.parametrize(
    "asked",
    [
        {"max_error": 0.1},
        {"max_error": ["0.1", "malignant=0.1"]},
        {"max_false": ["benign=0.1"]},
        {"refer": 0.2},
    ],
)
def test_sets_are_written_beside_every_way_to_refer(bundle, asked):
    assert found(bundle, coverage=0.9, **asked)[1].sets is not None


def test_a_share_is_referred(bundle):
    class Settings(ClassReferralSettings):
        refer_above: float | None = None

    settings, _ = rules_for(
        Settings(refer=0.25), metadata(), bundle=bundle, judged="images", console=Console(record=True)
    )
    uncertainty = simulated(np.random.default_rng(0), 600).uncertainty
    assert np.mean(uncertainty > settings.refer_above) == pytest.approx(0.25, abs=0.002)


def test_what_is_refused_says_why(bundle):
    with pytest.raises(
        InputError, match=r"^That at most 0\.1 % of the class .* at least 2995 images of this"
    ):
        found(bundle, max_error=["malignant=0.001"])
    with pytest.raises(InputError, match="found the class 'malign', expected one of benign, malignant"):
        found(bundle, max_error=["malign=0.1"])
    with pytest.raises(InputError, match=r"max_false 0\.1 names no class"):
        found(bundle, max_false=["0.1"])
    with pytest.raises(InputError, match="expected one share for a class"):
        found(bundle, max_error=["benign=0.1", "benign=0.2"])
    with pytest.raises(InputError, match=r"found malignant=5, expected a share between 0 and 1, as 0\.02"):
        found(bundle, max_error=["malignant=5"])
    with pytest.raises(InputError, match="holds no predictions of held-out images"):
        found(bundle, metadata(guarantee=None), coverage=0.9)
    with pytest.raises(InputError, match="does not hold what its model predicts of held-out"):
        found(bundle / "elsewhere", coverage=0.9)


def test_lanes_have_no_guarantees_of_classes(tmp_path):
    HeldOut(np.ones(2), np.zeros(2), np.arange(2), np.zeros(0, int), np.zeros(0)).write(tmp_path / HELD_OUT)
    lane = metadata(application="lane", class_names=("background", "lane"))
    with pytest.raises(InputError, match="max_error names a class; here nothing is guaranteed of single"):
        load_settings(PredictSettings, overrides=["max_error={lane: 0.1}"])
    with pytest.raises(InputError, match="a lane model does not give each example one class"):
        rules_for(
            ClassReferralSettings(coverage=0.9), lane, bundle=tmp_path, judged="images", console=Console()
        )
    with pytest.raises(InputError, match=r"refer goes with threshold 0\.5 only"):
        load_settings(PredictSettings, options={"refer": 0.1, "threshold": 0.7})


def test_sets_say_which_classes_they_are_true_of(bundle):
    _, rules, said = found(bundle, coverage=0.9)
    assert rules.sets is not None
    assert rules.sets.own.all()
    assert "the true class of 90 % of what is like the held-out data, on average" in said
    assert "also of each of benign, malignant, not normal" in said
    _, rules, said = found(bundle, coverage=0.999)
    assert "Every class is in every set: there are fewer than 999 held-out images" in said


def line(*probability: float, **fields) -> ClassPredictionLine:
    names = dict(zip(NAMES, probability, strict=True))
    most = max(names, key=names.__getitem__)
    return ClassPredictionLine(
        file="a", label=most, predictive_entropy=0.2, referred=False, probability=names, **fields
    )


def test_lines_follow_the_rules():
    rules = LineRules(
        referral=ReferralRule(entropy=0.1, missed={1: 0.05}, false={0: 0.2}),
        sets=PredictionSets(0.9, np.array([0.95, 0.95, np.inf]), np.ones(3, bool)),
    )
    sure, doubtful, by_entropy = line(0.95, 0.03, 0.02), line(0.9, 0.08, 0.02), line(0.02, 0.02, 0.96)
    assert [one.ruled(rules).referred for one in (sure, doubtful, by_entropy)] == [False, True, True]
    assert [one.ruled(rules).prediction_set for one in (sure, doubtful)] == [
        "benign | not normal",
        "benign | malignant | not normal",
    ]
    assert "prediction_set" in ClassPredictionLine.columns(NAMES, rules)
    assert "prediction_set" not in ClassPredictionLine.columns(NAMES, NO_RULES)


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_unfamiliar_is_referred_unless_it_is_to_be_kept(kept):
    rules = LineRules(least_familiarity=0.001, keep_unfamiliar=kept)
    foreigners = (PredictionLine("a", referred=False), line(0.9, 0.05, 0.05))
    for foreign in (replace(one, unfamiliar=True) for one in foreigners):
        assert foreign.ruled(rules).referred is not kept
        assert foreign.ruled(replace(rules, least_familiarity=0.5)).referred is False  # no flag is possible
        assert replace(foreign, unfamiliar=False).ruled(rules).referred is False
    broken = PredictionLine("a", status="unreadable")
    assert broken.ruled(rules) == broken


def test_limits_are_kept_as_they_are_written(tmp_path):
    given = ClassReferralSettings(max_error=[0.05, "a=b=0.1"], max_false={"c-d": 0.2})
    assert given.max_error == (ErrorLimit(0.05), ErrorLimit(0.1, "a=b"))
    content = given.model_dump(mode="json")
    assert (content["max_error"], content["max_false"]) == (["0.05", "a=b=0.1"], ["c-d=0.2"])
    assert ClassReferralSettings.model_validate(content) == given
    path = tmp_path / "config.yaml"
    path.write_text("max_error: 0.05\nmax_false: {c-d: 0.2}\n")
    assert load_settings(ClassReferralSettings, config=path).max_error == (ErrorLimit(0.05),)


def test_the_card_says_what_is_guaranteed_and_what_mistakes_cost():
    card = model_card(metadata(), None)
    assert "at most 0.3 nats at most 10 % are wrong, with 95% confidence, by 600 held-out images." in card
    assert "## Costs" not in card
    costs = CostTable(
        classes=NAMES, decisions=(*NAMES, "refer"), values=((0, 1, 2, 3), (50, 0, 50, 3), (1, 2, 0, 3))
    )
    card = model_card(metadata(costs=costs, guarantee=None), None)
    assert "None can be given" in card
    assert "| malignant | 50 | 0 | 50 | 3 |" in card


@pytest.mark.parametrize("guaranteed", [False, True])
def test_costs_refer_what_they_decide_otherwise_where_labels_are_guaranteed(guaranteed):
    costs = CostTable(classes=NAMES, decisions=NAMES, values=((0, 1, 1), (50, 0, 50), (1, 1, 0)))
    ruled = line(0.8, 0.15, 0.05).ruled(LineRules(costs=costs, is_guaranteed=guaranteed))
    assert (ruled.label, ruled.decision) == ("benign", "refer" if guaranteed else "malignant")
    assert ruled.referred is guaranteed
    sure = line(0.01, 0.98, 0.01).ruled(LineRules(costs=costs, is_guaranteed=guaranteed))
    assert (sure.decision, sure.referred) == ("malignant", False)


def test_guarantees_with_costs_say_what_is_referred(bundle):
    costs = CostTable(classes=NAMES, decisions=NAMES, values=((0, 1, 1), (50, 0, 50), (1, 1, 0)))
    _, rules, said = found(bundle, metadata(costs=costs), max_error=["malignant=0.05"])
    assert rules.is_guaranteed
    assert "where costs decide for another class, it is referred" in said
    _, rules, said = found(bundle, metadata(costs=costs), max_false=["malignant=0.1"])
    assert rules.costs is None  # a share of what is kept may rise by what they refer
    assert "The costs of the bundle are left out" in said
    path = bundle / "costs.csv"
    path.write_text("class,benign,malignant,not normal\nbenign,0,1,1\nmalignant,9,0,9\nnot normal,1,1,0\n")
    for limits in ({"max_error": ["0.1"]}, {"max_false": ["malignant=0.1"]}):
        with pytest.raises(InputError, match="--costs refer more than a guarantee does"):
            found(bundle, costs=path, **limits)
    _, rules, said = found(bundle, metadata(costs=costs))
    assert not rules.is_guaranteed
    assert said == ""


def test_a_share_that_few_examples_cannot_tell_is_refused(tmp_path):
    simulated(np.random.default_rng(0), 5).write(tmp_path / HELD_OUT)
    with pytest.raises(InputError, match=r"too few to tell which 10\.0% .* at least 10 are needed"):
        found(tmp_path, refer=0.1)


def test_a_class_without_a_name_is_none(bundle):
    with pytest.raises(InputError, match=r"found =0\.5, expected a share"):
        found(bundle, max_error=["=0.5"])
