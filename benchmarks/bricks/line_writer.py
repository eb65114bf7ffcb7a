"""Let a policy's model write lines of text without its constraint, for several prompts at once.

Each row caches the keys and values of its prompt and of the text so far. Rejected lines and rolled-back bricks are
overwritten; rows that are no longer requested are dropped from the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from benchmarks.bricks.rejection import LineRequest
from benchmarks.bricks.token_budget import PricedLine
from steelyard.policies.batch import pad_rows
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.cache import spread_prompts
from steelyard.sampling.draw import draw
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import CutRule, Prompt

MAX_LINE_TOKENS = 24
"""A line that does not end is cut off after this many tokens; a brick takes 11."""
COMPACT_BELOW = 0.875
"""Drop unused rows once at most this fraction of the rows is still requested."""


class LineWriter:
    """Writes the next line for each prompt. A draw depends on the seed, the prompt and the number of earlier draws."""

    def __init__(self, policy: CausalPolicy, prompts: Sequence[Prompt], *, room: int, seed: int) -> None:
        """``room`` is the maximum number of tokens to write for a prompt, not counting the last line."""
        policy.sample_mode()
        self.policy = policy
        self.prompts = [policy.encode(prompt).tolist() for prompt in prompts]
        self.prompt_of_row = list(range(len(prompts)))
        self.cached = [list(ids) for ids in self.prompts]
        """For each row, the tokens whose keys and values are cached; a token's column is its position."""
        self.capacity = max(map(len, self.prompts)) + room + MAX_LINE_TOKENS
        self._stream_P = stream(seed, np.arange(len(prompts)))
        self._drawn_P = np.zeros(len(prompts), np.int64)
        self._breaks: dict[int, bool] = {}
        self._prefill()

    def __call__(self, requests: Mapping[int, LineRequest]) -> dict[int, PricedLine]:
        """Write one line per requested prompt: up to a line break, the end of the text, or ``MAX_LINE_TOKENS``."""
        self._compact(requests)
        rows = {row: requests[prompt] for row, prompt in enumerate(self.prompt_of_row) if prompt in requests}
        hidden_BD = self._continue_from({row: request.text for row, request in rows.items()})
        temperature_B1 = torch.tensor(
            [[rows[row].temperature if row in rows else 1.0] for row in range(len(self.prompt_of_row))],
            device=self.policy.device,
        )
        lines: dict[int, list[int]] = {row: [] for row in rows}
        unfinished = list(rows)
        while unfinished:
            token_B = self._draw(hidden_BD, temperature_B1, unfinished)
            for row in unfinished:
                lines[row].append(token_B[row])
            unfinished = [row for row in unfinished if not self._ends(lines[row])]
            if unfinished:
                hidden_BD = self._feed({row: lines[row][-1:] for row in unfinished})
        return {self.prompt_of_row[row]: self._written(line) for row, line in lines.items()}

    def _written(self, line: list[int]) -> PricedLine:
        return PricedLine(self.policy.decode(line).partition("\n")[0], len(line))

    def _ends(self, line: list[int]) -> bool:
        last = line[-1]
        if last not in self._breaks:
            self._breaks[last] = last in self.policy.end_ids or "\n" in self.policy.decode([last])
        return self._breaks[last] or len(line) == MAX_LINE_TOKENS

    def _draw(self, hidden_BD: Tensor, temperature_B1: Tensor, unfinished: Sequence[int]) -> list[int]:
        """Draw a token for every row; finished rows discard theirs and save their random number for later."""
        uniform_B = uniform(self._stream_P[self.prompt_of_row], self._drawn_P[self.prompt_of_row])
        self._drawn_P[[self.prompt_of_row[row] for row in unfinished]] += 1
        with torch.no_grad():
            logits_BV = self.policy.head(hidden_BD).float() / temperature_B1
        return draw(logits_BV, CutRule(), torch.from_numpy(uniform_B).to(logits_BV.device)).token_B.tolist()

    # --- the model -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _prefill(self) -> None:
        """Run the right-padded prompts: a causal model ignores the padding, which is overwritten later."""
        ids_BT = pad_rows([np.asarray(ids) for ids in self.prompts], self.policy.pad_id).to(self.policy.device)
        with self.policy.precision():
            out = self.policy.body(
                input_ids=ids_BT, past_key_values=DynamicCache(config=self.policy.model.config), use_cache=True
            )
        row_B = torch.arange(len(ids_BT), device=self.policy.device)
        self.cache, columns = spread_prompts(out.past_key_values, row_B, self.capacity + 1)  # plus one discarded column
        if columns is None:
            raise ValueError("this model's cache cannot be overwritten; use a model with a dynamic key-value cache")
        self.columns = columns

    def _continue_from(self, texts: Mapping[int, str]) -> Tensor:
        """Advance each row to the end of its text: reuse the cached prefix and rerun at least the last token."""
        fed: dict[int, list[int]] = {}
        for row, text in texts.items():
            prompt = self.prompts[self.prompt_of_row[row]]
            target = [*prompt, *self.policy.tokenizer.encode(text, add_special_tokens=False)]
            same = min(shared_prefix(self.cached[row], target), len(target) - 1)
            del self.cached[row][same:]
            fed[row] = target[same:]
        return self._feed(fed)

    @torch.no_grad()
    def _feed(self, fed: Mapping[int, list[int]]) -> Tensor:
        """Append tokens to the cached rows and return the hidden state after the last token of each."""
        device = self.policy.device
        tokens = [fed.get(row, []) for row in range(len(self.prompt_of_row))]
        last_B = torch.tensor([max(len(row) - 1, 0) for row in tokens], device=device)
        token_BT = pad_rows([np.asarray(row, np.int64) for row in tokens], self.policy.pad_id).to(device)
        start_B1 = np.asarray([[len(ids)] for ids in self.cached])
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
            self.cached[row] += ids
        return out.last_hidden_state[torch.arange(len(last_B), device=device), last_B]

    def _mask(self, column_BT: np.ndarray) -> Tensor:
        """Build a mask that lets each token attend to its own row up to itself, and set the columns to write to."""
        place_BT = np.minimum(column_BT, self.capacity)
        end = max(self.columns.filled, int(place_BT.max()) + 1)
        self.columns.place_BT, self.columns.end = torch.from_numpy(place_BT).to(self.policy.device), end
        hidden = torch.from_numpy(np.arange(end) > column_BT[:, :, None]).to(self.policy.device)
        mask = torch.zeros(hidden.shape, dtype=self.columns.dtype, device=hidden.device)
        return mask.masked_fill_(hidden, torch.finfo(mask.dtype).min)[:, None]

    def _compact(self, requests: Mapping[int, LineRequest]) -> None:
        kept = [row for row, prompt in enumerate(self.prompt_of_row) if prompt in requests]
        if len(kept) <= COMPACT_BELOW * len(self.prompt_of_row):
            self.cache.batch_select_indices(torch.tensor(kept, device=self.policy.device))
            self.prompt_of_row = [self.prompt_of_row[row] for row in kept]
            self.cached = [self.cached[row] for row in kept]


def shared_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens two sequences share."""
    for position, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return position
    return min(len(one), len(other))
