"""Records that a run writes about each trained head."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import numpy as np

from gpmodels import HybridModel
from gpmodels.heads.base import SourceContribution
from gpmodels.registry import head_family
from pipelines.runs.application import DataKind, RunKind, SettingsKind
from pipelines.runs.choosing import choose_head, judge_selection
from pipelines.runs.description import head_folder
from pipelines.runs.familiarity import ENOUGH_GROUPS, is_measured, measure_familiarity, save_familiarity
from pipelines.runs.folds import held_out_names, held_out_points
from pipelines.runs.guarantees import keep_guarantee
from pipelines.runs.job import Job
from pipelines.runs.models import load_model, view_text
from pipelines.runs.selection import GroupLosses, SelectedNumbers, SelectedPoints, selection_temperature
from pipelines.runs.sources import contribution_text
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.labels import HeldOutLabels
from pipelines.scores.numbers import COVERAGES


class HeadRecords(Generic[DataKind, SettingsKind, RunKind]):
    """Temperatures, familiarity and weights of views of trained heads, and which head to take.

    Args:
        job: The run with its data.

    Attributes:
        job: The run with its data; its description grows.
        is_whole: Whether it is a run of its own, and not a part of one: then it is measured how familiar an
            input is to each head, and what each can guarantee.
        is_fold: Whether it trains the heads of a run without one fold of the examples, see
            `pipelines.runs.folds`.
    """

    def __init__(self, job: Job[DataKind, SettingsKind, RunKind]) -> None:
        self.job, self.is_whole, self.is_fold = job, True, False
        self._losses: dict[str, GroupLosses] = {}  # of each head on the held-out examples

    def _print_contribution(
        self, name: str, contribution: SourceContribution, sources: Sequence[str]
    ) -> None:
        """Report and record how much the sources of these names helped a head; warn if they do harm."""
        text = contribution_text(sources, contribution)
        self._update_run(gifts={**self.job.run.gifts, name: text})
        self.job.say(f"What the sources gave: {text}")
        if contribution.do_harm:
            self.job.say(
                "Warning: left-out training examples are predicted better without the sources. Train without "
                "--source, or with another one."
            )

    def _fit_temperature(self, name: str, model: HybridModel) -> None:
        job = self.job
        starts = head_family(name).starts_network
        # The first head of a run that an earlier version began keeps its temperature.
        by_points = starts and not job.run.temperature_by_groups
        names = held_out_names(job)
        groups = None if by_points else [example.group for example in job.data.manifest.select(names)]
        points, sharpness = held_out_points(job, name, model)
        if sharpness:
            self._update_run(fold_sharpness={**job.run.fold_sharpness, name: sharpness})
        temperature = selection_temperature(points, groups=groups)
        if starts:
            self._update_run(temperature=temperature)
        else:
            self._update_run(temperatures={**job.run.temperatures, name: temperature})
        self.job.say(f"Temperature of the {name} head, fitted on the held-out examples: {temperature:.3f}")
        self._judge_held_out(name, points, temperature)

    def _judge_held_out(self, name: str, points: SelectedPoints, temperature: float) -> None:
        """Write down the temperatures of a head's pools, and keep its losses on the held-out examples."""
        run, names = self.job.run, held_out_names(self.job)
        if self.job.has_several_labels:
            self._keep_labels(name, points, temperature)
        if isinstance(points, SelectedNumbers):
            self._keep_intervals(name, points, temperature)
            run = self.job.run
        found = judge_selection(self.job, names, points, temperature, calibrates_pools=run.calibrates_pools)
        self._losses[name] = found.losses
        if found.pool_temperatures:
            self._update_run(pool_temperatures={**run.pool_temperatures, name: found.pool_temperatures})
        for noun, of_pools in found.pool_temperatures.items():
            self.job.say(f"Temperature of its {noun}, after that: {of_pools:.3f}")

    def _keep_labels(self, name: str, points: SelectedPoints, temperature: float) -> None:
        """Keep the predictions for the labels of held-out examples, from which `predict` finds thresholds."""
        groups = [example.group for example in self.job.data.manifest.select(held_out_names(self.job))]
        truth = np.where(points.weights > 0, points.labels, np.nan).reshape(len(groups), -1)
        probability = points.probabilities(temperature)[:, 1].reshape(truth.shape)
        unit = np.unique(groups, return_inverse=True)[1].reshape(-1)
        HeldOutLabels(probability, truth, unit).write(head_folder(self.job.folder, name) / HELD_OUT)

    def _keep_intervals(self, name: str, points: SelectedNumbers, temperature: float) -> None:
        """Write down how wide intervals must be for the held-out groups, and the predictions for these."""
        groups = [example.group for example in self.job.data.manifest.select(held_out_names(self.job))]
        held_out = points.held_out(temperature, np.unique(groups, return_inverse=True)[1].reshape(-1))
        held_out.write(head_folder(self.job.folder, name) / HELD_OUT)
        factors = tuple(held_out.factor(coverage) for coverage in COVERAGES)
        self._update_run(interval_factors={**self.job.run.interval_factors, name: factors})
        times = ", ".join(f"{100 * one:g} %: {by:.2f}" for one, by in zip(COVERAGES, factors, strict=True))
        self.job.say(f"Intervals of the {name} head, in standard deviations on each side, {times}")

    def _judge_former_heads(self) -> None:
        """Judge the heads that an earlier command trained and that this one does not train."""
        job = self.job
        for name in job.run.heads:
            temperature = job.run.temperature_of(name)
            if name not in job.settings.heads:
                model = load_model(job, name)
                points, sharpness = held_out_points(job, name, model)
                if sharpness and name not in job.run.fold_sharpness:  # its temperature is by an older rule
                    self._fit_temperature(name, model)
                else:
                    self._judge_held_out(name, points, 1.0 if temperature is None else temperature)
                self._keep_guarantee(name, model)

    def _choose(self) -> None:
        """Write down which of the trained heads to take, once all of them are judged."""
        if self._losses and self._losses.keys() >= set(self.job.run.heads):  # else it was chosen before
            self._update_run(choice=choose_head(self._losses, len(set(self.job.groups("train")))))

    def _measure_familiarity(self, name: str, model: HybridModel) -> None:
        """Keep the familiarity of the model, fitted to the selection examples and their groups."""
        job, folder = self.job, head_folder(self.job.folder, name)
        if not job.splits.selection or not self.is_whole or is_measured(folder):
            return
        groups, seed = job.groups("selection"), job.settings.seed
        few = model.takes_features and len(set(groups)) < ENOUGH_GROUPS
        found = measure_familiarity(
            model,
            job.batches("train") if few else job.shuffled_batches("train"),
            job.batches("selection"),
            groups=groups,
            seed=seed,
            training_groups=job.groups("train") if few else (),
        )
        if found is not None:
            save_familiarity(found, folder)

    def _keep_guarantee(self, name: str, model: HybridModel) -> None:
        """Keep what the model with its temperatures can guarantee, found on the held-out examples."""
        if self.is_whole and model.head.is_classifier and not self.job.has_several_labels:
            keep_guarantee(self.job, name, model)

    def _weigh_views(self, model: HybridModel) -> None:
        """Write down how much each view counts over the training examples."""
        views = self.job.application.network.view_columns(self.job.settings, self.job.run)
        features = [
            model.network(inputs, training=False).numpy() for inputs, *_ in self.job.shuffled_batches("train")
        ]
        weights = model.head.view_weights(np.concatenate(features))
        if views is None or weights is None:
            raise TypeError(f"The head {model.head.name} weighs views, but the features come in one piece.")
        self._update_run(view_weights=dict(zip(views, np.round(weights, 4).tolist(), strict=True)))
        self.job.say(f"Weights of the views: {view_text(self.job.run.view_weights)}")

    def _update_run(self, **changes: Any) -> None:
        self.job = replace(self.job, run=self.job.run.model_copy(update=changes))
        self.job.run.save(self.job.folder)
