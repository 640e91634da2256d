"""Which head of a run to take, as its description records it; nothing heavy is imported here."""

from pydantic import BaseModel, ConfigDict

STANDARD_ERROR = 0.32
"""Differences of this p-value, or a larger one, are within one standard error."""

ALIKE = 0.01
"""An NLL that is larger by at most this share is as good, if the difference is within one standard error."""


class HeadChoice(BaseModel):
    """The head that a run would take, by the negative log-likelihood (NLL) of what training held out.

    Attributes:
        head: The head with the lowest NLL, or the cheapest one, in the order of reports, that is as good.
        best: The head with the lowest NLL, perhaps by chance.
        nlls: NLL of each head with its temperatures, in nats, in the order of reports.
        judged: What the NLL is of, in the plural.
        groups: Number of independent groups that these are of.
        trained_groups: Number of groups that the heads were trained on; None in runs of an earlier version.
        against: The head that `head` was compared with: the best one, or of the cheaper ones the best; None
            where there is none.
        p_value: Of no difference between the two, by groups; None where it is undefined.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    head: str
    best: str
    nlls: dict[str, float]
    judged: str
    groups: int
    trained_groups: int | None = None
    against: str | None = None
    p_value: float | None = None

    def sentence(self) -> str:
        """Return a sentence that says which head to take, and why.

        Example:
            >>> HeadChoice(
            ...     head="linear",
            ...     best="hgp",
            ...     nlls={"linear": 0.2, "hgp": 0.199},
            ...     judged="images",
            ...     groups=12,
            ...     against="hgp",
            ...     p_value=0.4,
            ... ).sentence()
            'Take the linear head: of the held-out images (12 groups) its NLL is 0.2000, and the lower one \
of hgp, 0.1990, is within 1% and one standard error of it (p 0.4), so that the cheaper head is taken.'
        """
        held_out = f"of the held-out {self.judged} ({self.groups} group{'s' * (self.groups != 1)})"
        own = f"{self.nlls[self.head]:.4f}"
        if self.against is None:
            others = "the run has no other" if len(self.nlls) == 1 else "no head is cheaper"
            reason = f"its NLL {held_out} is {own}, and {others}"
            if len(self.nlls) > 1:
                reason = f"{held_out} it has the lowest NLL, {own}, and {others}"
            return f"Take the {self.head} head: {reason}."
        other = f"{self.nlls[self.against]:.4f}"
        p = "p undefined with one group" if self.p_value is None else f"p {self.p_value:.2g}"
        if self.head == self.best:
            chance = self.p_value is None or self.p_value >= STANDARD_ERROR
            return (
                f"Take the {self.head} head: {held_out} it has the lowest NLL, {own}; the cheaper "
                f"{self.against} head has {other} ({p}{', perhaps by chance' * chance})."
            )
        alike = self.nlls[self.head] <= self.nlls[self.against] + ALIKE * abs(self.nlls[self.against])
        within = f"{ALIKE:.0%} and one standard error" if alike else "one standard error"
        if self.trained_groups == 1 and not alike:
            within += ", as far as can be told after training on a single group,"
        return (
            f"Take the {self.head} head: {held_out} its NLL is {own}, and the lower one of {self.against}, "
            f"{other}, is within {within} of it ({p}), so that the cheaper head is taken."
        )
