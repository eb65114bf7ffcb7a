"""Lines of text by a policy's model without its constraint, for several prompts at once.

Each row keeps the keys and values of its prompt and of the text so far. What is not gone on with, a rejected line or
bricks that were cut back, is written over; rows that nobody asks for any more leave the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from benchmarks.bricks.rejection import Asked
from benchmarks.bricks.token_budget import Written
from steelyard.policies.batch import pad_rows
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.cache import spread_prompts
from steelyard.sampling.draw import draw
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import CutRule, Prompt

LONGEST = 24
"""Tokens after which a line without an end is given up; a brick takes 11."""
COMPACT_BELOW = 0.875
"""Rows are moved together once at most this share of them is still asked for."""


class LineWriter:
    """Lines by the number of their prompt. A draw is a function of the seed, the prompt and how many came before."""

    def __init__(self, policy: CausalPolicy, prompts: Sequence[Prompt], *, room: int, seed: int) -> None:
        """``room``: the most tokens of a text, its last line not among them."""
        policy.sample_mode()
        self.policy = policy
        self.prompts = [policy.encode(prompt).tolist() for prompt in prompts]
        self.places = list(range(len(prompts)))
        """Which prompt is in each row."""
        self.known = [list(ids) for ids in self.prompts]
        """The tokens of each row whose keys and values are in the cache, in the column of their position."""
        self.capacity = max(map(len, self.prompts)) + room + LONGEST
        self._stream_P = stream(seed, np.arange(len(prompts)))
        self._drawn_P = np.zeros(len(prompts), np.int64)
        self._breaks: dict[int, bool] = {}
        self._prefill()

    def __call__(self, asked: Mapping[int, Asked]) -> dict[int, Written]:
        """A line for each prompt that asks: up to a line break, the end of the text, or ``LONGEST`` tokens."""
        self._compact(asked)
        rows = {row: asked[place] for row, place in enumerate(self.places) if place in asked}
        hidden_BD = self._go_on({row: wanted.text for row, wanted in rows.items()})
        temperature_B1 = torch.tensor(
            [[rows[row].temperature if row in rows else 1.0] for row in range(len(self.places))],
            device=self.policy.device,
        )
        lines: dict[int, list[int]] = {row: [] for row in rows}
        going = list(rows)
        while going:
            token_B = self._draw(hidden_BD, temperature_B1, going)
            for row in going:
                lines[row].append(token_B[row])
            going = [row for row in going if not self._ends(lines[row])]
            if going:
                hidden_BD = self._feed({row: lines[row][-1:] for row in going})
        return {self.places[row]: self._written(line) for row, line in lines.items()}

    def _written(self, line: list[int]) -> Written:
        return Written(self.policy.decode(line).partition("\n")[0], len(line))

    def _ends(self, line: list[int]) -> bool:
        last = line[-1]
        if last not in self._breaks:
            self._breaks[last] = last in self.policy.end_ids or "\n" in self.policy.decode([last])
        return self._breaks[last] or len(line) == LONGEST

    def _draw(self, hidden_BD: Tensor, temperature_B1: Tensor, going: Sequence[int]) -> list[int]:
        """A token for every row; those that do not go on throw theirs away, and their numbers are not used up."""
        uniform_B = uniform(self._stream_P[self.places], self._drawn_P[self.places])
        self._drawn_P[[self.places[row] for row in going]] += 1
        with torch.no_grad():
            logits_BV = self.policy.head(hidden_BD).float() / temperature_B1
        return draw(logits_BV, CutRule(), torch.from_numpy(uniform_B).to(logits_BV.device)).token_B.tolist()

    # --- the model -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _prefill(self) -> None:
        """Run the prompts, padded on the right: a causal model does not look there, and it is written over later."""
        ids_BT = pad_rows([np.asarray(ids) for ids in self.prompts], self.policy.pad_id).to(self.policy.device)
        with self.policy.precision():
            out = self.policy.body(
                input_ids=ids_BT, past_key_values=DynamicCache(config=self.policy.model.config), use_cache=True
            )
        row_B = torch.arange(len(ids_BT), device=self.policy.device)
        self.cache, columns = spread_prompts(out.past_key_values, row_B, self.capacity + 1)  # one to throw into
        if columns is None:
            raise ValueError("this model keeps a cache of its own form, in which nothing can be written over")
        self.columns = columns

    def _go_on(self, texts: Mapping[int, str]) -> Tensor:
        """Take each row to the end of a text: what is known of it stays, and at least its last token is run again."""
        fed: dict[int, list[int]] = {}
        for row, text in texts.items():
            whole = [*self.prompts[self.places[row]], *self.policy.tokenizer.encode(text, add_special_tokens=False)]
            same = min(common(self.known[row], whole), len(whole) - 1)
            del self.known[row][same:]
            fed[row] = whole[same:]
        return self._feed(fed)

    @torch.no_grad()
    def _feed(self, fed: Mapping[int, list[int]]) -> Tensor:
        """Run tokens behind what is known of their rows; the hidden state after the last of each."""
        device = self.policy.device
        tokens = [fed.get(row, []) for row in range(len(self.places))]
        last_B = torch.tensor([max(len(row) - 1, 0) for row in tokens], device=device)
        token_BT = pad_rows([np.asarray(row, np.int64) for row in tokens], self.policy.pad_id).to(device)
        start_B1 = np.asarray([[len(ids)] for ids in self.known])
        column_BT = start_B1 + np.arange(token_BT.shape[1])
        with self.policy.precision():
            out = self.policy.body(
                input_ids=token_BT,
                attention_mask=self._mask(column_BT),
                position_ids=torch.from_numpy(np.minimum(column_BT, self.capacity - 1)).to(device),
                past_key_values=self.cache,
                use_cache=True,
            )
        self.columns.filled = self.columns.end
        for row, ids in fed.items():
            self.known[row] += ids
        return out.last_hidden_state[torch.arange(len(last_B), device=device), last_B]

    def _mask(self, column_BT: np.ndarray) -> Tensor:
        """A token sees its own row up to itself, and writes to its own column."""
        place_BT = np.minimum(column_BT, self.capacity)
        end = max(self.columns.filled, int(place_BT.max()) + 1)
        self.columns.place_BT, self.columns.end = torch.from_numpy(place_BT).to(self.policy.device), end
        hidden = torch.from_numpy(np.arange(end) > column_BT[:, :, None]).to(self.policy.device)
        mask = torch.zeros(hidden.shape, dtype=self.columns.dtype, device=hidden.device)
        return mask.masked_fill_(hidden, torch.finfo(mask.dtype).min)[:, None]

    def _compact(self, asked: Mapping[int, Asked]) -> None:
        kept = [row for row, place in enumerate(self.places) if place in asked]
        if len(kept) <= COMPACT_BELOW * len(self.places):
            self.cache.batch_select_indices(torch.tensor(kept, device=self.policy.device))
            self.places = [self.places[row] for row in kept]
            self.known = [self.known[row] for row in kept]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    for place, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return place
    return min(len(one), len(other))
