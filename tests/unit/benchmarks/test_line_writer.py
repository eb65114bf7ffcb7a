"""Lines written in a batch with an overwritten cache equal those of a plain model that starts over for each line."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from benchmarks.bricks import line_writer  # noqa: E402
from benchmarks.bricks.line_writer import MAX_LINE_TOKENS, LineWriter, shared_prefix  # noqa: E402
from benchmarks.bricks.rejection import LineRequest  # noqa: E402
from steelyard.policies.causal import CausalPolicy  # noqa: E402
from steelyard.policies.loading import PolicyOptions, from_scratch_policy  # noqa: E402
from steelyard.policies.scratch import Architecture  # noqa: E402
from steelyard.sampling.randomness import stream, uniform  # noqa: E402

CHARACTERS = (*"0123456789x(), abcdef", "\n")
PROMPTS = ("abc", "f", "dd 12 ee")
SEED = 5


@pytest.fixture(scope="module")
def policy() -> CausalPolicy:
    shape = Architecture(layers=2, width=32, heads=2, kv_heads=1, max_length=256)
    made = from_scratch_policy(shape, CHARACTERS, PolicyOptions(device="cpu", seed=2), spaced=False)
    with torch.no_grad():
        for parameter in made.model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(6.0)
    return made


class Plain:
    """Draws the same tokens, each from a forward pass over the whole text."""

    def __init__(self, policy: CausalPolicy) -> None:
        self.policy, self.drawn = policy, [0] * len(PROMPTS)

    def line(self, place: int, asked: LineRequest) -> tuple[str, int]:
        ids = [*self.policy.encode(PROMPTS[place]).tolist(), *self.policy.tokenizer.encode(asked.text)]
        line: list[int] = []
        while len(line) < MAX_LINE_TOKENS and not self._ended(line):
            line.append(self._token(place, [*ids, *line], asked.temperature))
        return self.policy.decode(line).partition("\n")[0], len(line)

    def _ended(self, line: list[int]) -> bool:
        return bool(line) and (line[-1] in self.policy.end_ids or "\n" in self.policy.decode(line[-1:]))

    @torch.no_grad()
    def _token(self, place: int, ids: list[int], temperature: float) -> int:
        logits_V = self.policy.model(input_ids=torch.tensor([ids])).logits[0, -1]
        logits_V[list(self.policy.excluded)] = -torch.inf
        cumulative_V = (logits_V / temperature).softmax(-1).cumsum(-1)
        number = float(uniform(stream(SEED, place), self.drawn[place]))
        self.drawn[place] += 1
        return int((cumulative_V <= number * cumulative_V[-1]).sum())


def test_the_lines_equal_those_of_a_plain_model(policy: CausalPolicy) -> None:
    """Prompts and texts differ in length; texts grow, shrink, change or stay the same; rows leave the batch."""
    rounds = [
        {0: LineRequest("", 1.0), 1: LineRequest("", 0.5), 2: LineRequest("", 1.0)},
        {0: LineRequest("12\n", 1.0), 1: LineRequest("", 0.6), 2: LineRequest("ab\ncd\n", 1.0)},
        {0: LineRequest("12\n", 1.3), 1: LineRequest("7\n", 1.0), 2: LineRequest("ab\n", 1.0)},
        {1: LineRequest("7\n8\n9\n", 1.0), 2: LineRequest("", 1.0)},
        {1: LineRequest("7\n8\n", 1.0), 2: LineRequest("ab\nc\n", 1.0)},
        {2: LineRequest("ab\nc\nd\n", 1.0)},
    ]
    writer, plain = LineWriter(policy, PROMPTS, room=30, seed=SEED), Plain(policy)
    lengths: set[int] = set()
    for asked in rounds:
        written = writer(asked)
        assert written == {place: plain.line(place, wanted) for place, wanted in asked.items()}
        lengths |= {one.tokens for one in written.values()}
    assert len(lengths) > 2, "the lines must differ in length, or the test checks nothing"
    assert writer.prompt_of_row == [2]


def test_rows_may_stay_although_they_are_not_requested(policy: CausalPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_writer, "COMPACT_BELOW", 0.0)
    writer, plain = LineWriter(policy, PROMPTS, room=30, seed=SEED), Plain(policy)
    for asked in (
        {0: LineRequest("", 1.0), 2: LineRequest("a\n", 1.0)},
        {2: LineRequest("a\nb\n", 1.0)},
        {0: LineRequest("1\n", 1.0)},
    ):
        assert writer(asked) == {place: plain.line(place, wanted) for place, wanted in asked.items()}
    assert writer.prompt_of_row == [0, 1, 2]


def test_the_shared_prefix_of_two_texts() -> None:
    assert shared_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert shared_prefix([1, 2], [1, 2, 3]) == 2
    assert shared_prefix([], [1]) == 0
