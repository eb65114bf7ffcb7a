"""The base class of domains: a family of tasks with a verifier.

A domain is used as an object (``steelyard.train(domain=Mine())``), by its import path (``[domain] name =
"my_module:Mine"``), or by a name that a package registers::

    [project.entry-points."steelyard.domains"]
    mine = "my_package.domain:Mine"
"""

from __future__ import annotations

import itertools
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from steelyard.constraints.automaton import Automaton
from steelyard.domains import defaults
from steelyard.domains.artifacts import Artifact, ColourBy, Report, Summary, TextSpan
from steelyard.drawing import Scene
from steelyard.drawing.sheet import with_title
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.text import printable
from steelyard.types import Prompt, Task
from steelyard.verification import Verifier, as_verifier

LONGEST_DESCRIPTION = 120
Split = Literal["train", "validation", "held_out"]


class Domain(ABC):
    """Tasks and their verifier. ``size``, ``task`` and ``verifier`` are required; every other method has a default."""

    picture_formats: ClassVar[tuple[str, ...]] = ("svg", "png")
    """What ``render`` writes, as file names end. ``svg`` is one of them."""
    export_formats: ClassVar[tuple[str, ...]] = ("txt",)
    """What ``export`` writes, as file names end."""

    @property
    def name(self) -> str:
        """What messages and verdict caches call the domain."""
        return type(self).__name__.lower()

    # --- required --------------------------------------------------------------------------------------------------

    @abstractmethod
    def size(self, split: Split) -> int | None:
        """The number of tasks of a split; ``None``: endless. Splits share no task."""

    @abstractmethod
    def task(self, split: Split, index: int) -> Task:
        """Task number ``index`` of a split: a pure function of the two and the domain's own parameters."""

    @abstractmethod
    def verifier(self) -> Verifier | Callable[..., Any]:
        """What scores samples: a function ``f(task, text)``, or anything else that ``steelyard.train`` takes as
        ``verifier``. Raise ``Invalid`` for an invalid sample; let failures of the verifier itself raise.
        """

    # --- training --------------------------------------------------------------------------------------------------

    def vocabulary(self) -> tuple[str, ...] | None:
        """All words that a policy from scratch reads or writes, ``<pad> <bos> <eos>`` first; the text separates them by
        spaces. ``None``: any text, for pretrained models.
        """
        return None

    def automaton(self) -> Automaton[Any] | None:
        """The constraint on every sample, over words or characters; ``None``: anything goes."""
        return None

    def examples(self, *, seed: int) -> Iterable[tuple[Task, str]]:
        """Training tasks, each with a text for it, for [warmstart] and [judge]; a function of the seed. If they end,
        they are repeated.
        """
        return ()

    # --- what people see -------------------------------------------------------------------------------------------

    def describe(self, task: Task) -> str:
        """What the task asks for, in a few words; titles of pictures."""
        return _request(task.prompt)

    def to_text(self, text: str) -> str:
        """A sample as a file holds it; empty if no part of it is an artifact."""
        return text

    def highlights(self, task: Task, text: str) -> list[TextSpan]:
        """The text in parts: which the task gave, which the policy wrote."""
        return [TextSpan(text)]

    def draw(self, artifact: Artifact) -> Scene:
        """The picture of one artifact, from the shapes of ``steelyard.drawing``. Raise ``Invalid`` if there is none: a
        sample is then shown as text.
        """
        return defaults.draw_text(artifact.text)

    def render(
        self,
        artifacts: Sequence[Artifact],
        form: str = "svg",
        *,
        by: ColourBy = "part",
        scale: float = 1.0,
        title: str = "",
    ) -> bytes:
        """A picture file in one of ``picture_formats``: one artifact of a file, or a sheet of several with captions.
        Override ``draw`` for other pictures, and this method for other formats.
        """
        defaults.require_format("picture", self.name, form, self.picture_formats)
        if not artifacts:
            raise DataError("there is nothing to draw: give at least one artifact")
        scenes = [self._scene(artifact) for artifact in artifacts]
        alone = len(artifacts) == 1 and artifacts[0].verdict is None
        scene = scenes[0] if alone else defaults.draw_sheet(artifacts, scenes)
        title = title or (artifacts[0].title if alone else "")
        return defaults.picture_file(with_title(scene, title) if title else scene, form, scale)

    def _scene(self, artifact: Artifact) -> Scene:
        try:
            return self.draw(artifact)
        except Invalid as error:
            if artifact.verdict is None:
                raise DataError(f"{artifact.title or 'the text'} cannot be drawn: {error}") from None
            return defaults.draw_text(artifact.text)

    def export(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        """The files of an export by name, ``name`` plus an ending each; the requested one first."""
        defaults.require_format("export", self.name, form, self.export_formats)
        return {f"{name}.{form}": text.encode()}

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """The result of verifying the text of a file, part by part; ``spec`` as in ``Task.spec``."""
        task = Task("file", "", spec or {})
        return defaults.report_on(defaults.verify_text(as_verifier(self.verifier()), task, text))

    def with_method(self, method: str) -> Self:
        """The same domain with another way to verify (``steelyard verify --method``)."""
        raise ConfigError(f"--method {method}: {self.name} has one way to verify; leave it out")

    def summary(self, artifacts: Sequence[Artifact], *, title: str = "") -> Summary:
        """Many artifacts together (``steelyard report``)."""
        return defaults.summarise(artifacts, title or self.name)


def title_of(domain: Domain, task: Task) -> str:
    """What a task asks for, in one line in the words of its domain; the id if it has none, cut if too long."""
    described = printable(domain.describe(task))
    return textwrap.shorten(described, LONGEST_DESCRIPTION, placeholder=" …") or task.id


def examples_of(domain: Domain | None, section: str, *, seed: int) -> Iterator[tuple[Task, str]]:
    """The examples of a domain without end, for a section of the configuration that needs them."""
    if domain is None:
        raise ConfigError(f"{section}: a run without a domain has no examples; remove [{section}]")
    if next(iter(domain.examples(seed=0)), None) is None:
        raise ConfigError(
            f"{section}: the domain {domain.name!r} has no examples; write "
            f"{type(domain).__name__}.examples(self, *, seed), which yields pairs of a task and a text, or remove "
            f"[{section}]"
        )
    return (example for _ in itertools.count() for example in domain.examples(seed=seed))


def _request(prompt: Prompt) -> str:
    """The prompt itself, or the last message of the user."""
    if isinstance(prompt, str):
        return prompt
    return next((message.get("content", "") for message in reversed(prompt) if message.get("role") == "user"), "")
