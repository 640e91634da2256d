"""Exact copies among the files that examples are cut out of, where these are compared in no other way."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from data_prep.files.identical import copies, torn_copies
from data_prep.labelled.examples import PreparedExample
from data_prep.labelled.near_duplicates import Contradiction

if TYPE_CHECKING:
    from data_prep.splits.divide import Assignment


@dataclass
class SourceDigests:
    """What was cut out of each source, as digests, while examples pass by.

    Attributes:
        of_source: Digest of the pixels of a source's examples that show more than one level, by its name.
        labels: Label of each source's first example.
        first: Name of that example.
    """

    of_source: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def seen(self, examples: Iterable[PreparedExample]) -> Iterator[PreparedExample]:
        """Yield the same examples, and keep what tells their sources from others."""
        for example in examples:
            if (example.image != example.image.flat[0]).any():
                source = example.facts.source
                digest = self.of_source.setdefault(source, hashlib.blake2b(digest_size=16))
                digest.update(example.image.tobytes())
                self.labels.setdefault(source, example.facts.label)
                self.first.setdefault(source, example.facts.name)
            yield example

    def digests(self) -> dict[str, bytes]:
        """Return the digest of each source, by its name."""
        return {source: digest.digest() for source, digest in self.of_source.items()}

    def contradictions(self, class_names: Sequence[str]) -> list[Contradiction]:
        """Return the copies that have two classes."""
        return [
            (one, class_names[self.labels[one]], other, class_names[self.labels[other]])
            for one, other in copies(self.digests())
            if self.labels[one] != self.labels[other]
        ]

    def torn(self, assigned: Mapping[str, "Assignment"]) -> list[str]:
        """Say how many pairs of copies are on two sides of the split, by the parts of the examples."""
        sides = {source: assigned[name].side for source, name in self.first.items() if name in assigned}
        return torn_copies(self.digests(), sides)
