"""The base class for domains. A domain is a family of tasks with a verifier.

Pass a domain as an object (``steelyard.train(domain=Mine())``), by import path (``[domain] name = "my_module:Mine"``),
or by a name that a package registers::

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
from steelyard.environments import Environment, as_environment
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.text import printable
from steelyard.types import Message, Prompt, Sample, Task
from steelyard.verification import Verifier, as_verifier

MAX_TITLE_LENGTH = 120
Split = Literal["train", "validation", "held_out"]
SPLIT_NAMES: Mapping[Split, str] = {"train": "training", "validation": "validation", "held_out": "held-out"}
"""How messages name the splits, as in "held-out tasks"."""


class Domain(ABC):
    """A family of tasks with a verifier. Subclasses must define ``size``, ``task`` and ``verifier``; all other methods
    have defaults.
    """

    picture_formats: ClassVar[tuple[str, ...]] = ("svg", "png")
    """File extensions that ``render`` supports; must include ``svg``."""
    export_formats: ClassVar[tuple[str, ...]] = ("txt",)
    """File extensions that ``export`` supports."""

    @property
    def name(self) -> str:
        """The name of the domain in messages and verdict caches."""
        return type(self).__name__.lower()

    # --- required --------------------------------------------------------------------------------------------------

    @abstractmethod
    def size(self, split: Split) -> int | None:
        """Return the number of tasks in a split, or ``None`` if it is infinite. Splits must be disjoint."""

    @abstractmethod
    def task(self, split: Split, index: int) -> Task:
        """Return one task. The result must depend only on ``split``, ``index`` and the domain's parameters."""

    @abstractmethod
    def verifier(self) -> Verifier | Environment | Callable[..., Any]:
        """Return the verifier: a function ``f(task, text)``, an ``Environment`` for episodes, or any other value that
        ``steelyard.train`` accepts as ``verifier``. The verifier should raise ``Invalid`` for invalid samples and any
        other exception for its own failures.
        """

    # --- training --------------------------------------------------------------------------------------------------

    def vocabulary(self) -> tuple[str, ...] | None:
        """Return all words that a policy trained from scratch reads or writes, starting with ``<pad> <bos> <eos>``.
        Words are separated by spaces. ``None`` means free text, as used by pretrained models.
        """
        return None

    def automaton(self) -> Automaton[Any] | None:
        """Return the constraint on every sample, over words or characters; ``None`` means no constraint."""
        return None

    def examples(self, *, seed: int) -> Iterable[tuple[Task, str]]:
        """Yield (training task, example answer) pairs for [warmstart] and [judge]. The examples must depend only on the
        seed and are repeated when exhausted.
        """
        return ()

    # --- presentation ----------------------------------------------------------------------------------------------

    def describe(self, task: Task) -> str:
        """Describe the task in a few words, for picture titles."""
        return _request(task.prompt)

    def to_text(self, text: str) -> str:
        """Convert a sample to file contents; return an empty string if the sample contains no artifact."""
        return text

    def episode_text(self, turns: Sequence[Message]) -> str:
        """Return the artifact of an episode as text, before ``to_text``; by default, the policy's last turn."""
        return next((turn["content"] for turn in reversed(turns) if turn["role"] == "assistant"), "")

    def highlights(self, task: Task, text: str) -> list[TextSpan]:
        """Split the text into spans given by the task and spans written by the policy."""
        return [TextSpan(text)]

    def draw(self, artifact: Artifact) -> Scene:
        """Draw one artifact using the shapes in ``steelyard.drawing``. Raise ``Invalid`` if the artifact cannot be
        drawn; the sample is then shown as text.
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
        """Render artifacts in one of ``picture_formats``: a single picture, or a captioned sheet for several artifacts.
        Override ``draw`` to change the pictures, or this method to add formats.
        """
        defaults.require_format("picture", self.name, form, self.picture_formats)
        if not artifacts:
            raise DataError("there is nothing to render; pass at least one artifact")
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
        """Export text and return file contents by file name (``name`` plus extension), requested format first."""
        defaults.require_format("export", self.name, form, self.export_formats)
        return {f"{name}.{form}": text.encode()}

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """Verify the contents of a file and report the result part by part; ``spec`` is a ``Task.spec``.

        An environment gets the text as the first turn of an episode.
        """
        task, verifier = Task("file", "", spec or {}), self.verifier()
        if (environment := as_environment(verifier)) is not None:
            return defaults.report_on(defaults.first_answer(environment, task, text))
        return defaults.report_on(defaults.verify_text(as_verifier(verifier), task, text))

    def with_method(self, method: str) -> Self:
        """Return the same domain with another verification method (``steelyard verify --method``)."""
        raise ConfigError(f"--method {method}: {self.name} has only one verification method; omit --method")

    def summary(self, artifacts: Sequence[Artifact], *, title: str = "") -> Summary:
        """Summarise many artifacts (``steelyard report``)."""
        return defaults.summarise(artifacts, title or self.name)


def title_of(domain: Domain, task: Task) -> str:
    """Return the domain's description of a task as one shortened line, or the task's id if there is none."""
    described = printable(domain.describe(task))
    return textwrap.shorten(described, MAX_TITLE_LENGTH, placeholder=" …") or task.id


def artifact_text(domain: Domain, sample: Sample) -> str:
    """Return the artifact of a sample as text, before ``Domain.to_text``."""
    return domain.episode_text(sample.messages) if sample.turns else sample.text


def examples_of(domain: Domain | None, section: str, *, seed: int) -> Iterator[tuple[Task, str]]:
    """Yield a domain's examples in an endless loop, for a configuration section that needs them."""
    if domain is None:
        raise ConfigError(f"{section}: a run without a domain has no examples; set [domain] or remove [{section}]")
    if next(iter(domain.examples(seed=0)), None) is None:
        raise ConfigError(
            f"{section}: the domain {domain.name!r} has no examples; remove [{section}] or define "
            f"{type(domain).__name__}.examples(self, *, seed), which yields (task, text) pairs"
        )
    return (example for _ in itertools.count() for example in domain.examples(seed=seed))


def _request(prompt: Prompt) -> str:
    """Return the prompt, or the last user message of a chat."""
    if isinstance(prompt, str):
        return prompt
    return next((message.get("content", "") for message in reversed(prompt) if message.get("role") == "user"), "")
