"""GRPO in one file, with plain torch and transformers: read it from top to bottom.

    python examples/reference_loop.py

A transformer with a third of a million parameters learns from scratch to sort digits: the answer to `2 0 1 =` should be
`0 1 2 <end>`. There is no dataset of answers, only a function that scores an answer. In every step the policy answers
each question several times (a group). Answers better than their group's mean become more likely, worse ones less:

    A_i  = (r_i - mean(r)) / (std(r) + 1e-6)                                    advantage within the group
    rho  = pi(token) / pi_old(token)                                            ratio to the policy that sampled
    KL   = exp(-d) + d - 1,  d = log pi(token) - log pi_reference(token)        "k3", distance to a frozen reference
    loss = mean_i mean_t [ -min(rho A, clip(rho, 1 - low, 1 + high) A) + beta KL ]

(Shao et al., arXiv 2402.03300.) Steelyard's trainer computes the same update, with more attention to speed, memory,
constraints and failures. A benchmark calls `update` and Steelyard's learner with the same rollouts and compares the
weights after three steps.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

PAD, END, EQUALS, FIRST_DIGIT = 0, 1, 2, 3
DIGITS = 6


@dataclass(frozen=True)
class Config:
    steps: int = 150
    tasks_per_step: int = 32
    group_size: int = 8
    max_new_tokens: int = 5
    temperature: float = 1.0
    never_sampled: tuple[int, ...] = (PAD,)  # has no text, so it is excluded from sampling
    learning_rate: float = 1e-3
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coefficient: float = 0.02
    grad_clip: float = 1.0
    microbatch_rows: int = 128
    seed: int = 0


@dataclass(frozen=True)
class Rollout:
    """One answer: the tokens of the question and the answer, the reward, and the index of the question."""

    token_ids: list[int]
    prompt_length: int
    reward: float
    group: int

    @property
    def answer_length(self) -> int:
        return len(self.token_ids) - self.prompt_length


# ------------------------------------------------------------------------------------------------ task


def draw_task(generator: random.Random) -> list[int]:
    """Draw two or three digits to sort."""
    return [generator.randrange(DIGITS) for _ in range(generator.choice([2, 3]))]


def prompt_of(digits: Sequence[int]) -> list[int]:
    return [FIRST_DIGIT + digit for digit in digits] + [EQUALS]


def score(digits: Sequence[int], answer: Sequence[int]) -> float:
    """Return the fraction of correct positions, including the end token: 1 only for exactly the sorted digits."""
    expected = [FIRST_DIGIT + digit for digit in sorted(digits)] + [END]
    correct = sum(given == wanted for given, wanted in zip(answer, expected, strict=False))
    return correct / max(len(expected), len(answer))


# ------------------------------------------------------------------------------------------------ sampling


def make_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=FIRST_DIGIT + DIGITS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=END,
    )
    return LlamaForCausalLM(config)


@torch.no_grad()
def sample(model: LlamaForCausalLM, tasks: Sequence[Sequence[int]], config: Config) -> list[Rollout]:
    """Answer every task ``group_size`` times and score the answers. Prompts are padded on the left."""
    prompts = [prompt_of(task) for task in tasks for _ in range(config.group_size)]
    width = max(len(prompt) for prompt in prompts)
    input_BT = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    output_BT = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
        input_BT,
        attention_mask=(input_BT != PAD).long(),
        do_sample=True,
        temperature=config.temperature,
        top_k=0,
        suppress_tokens=list(config.never_sampled),
        max_new_tokens=config.max_new_tokens,
    )
    rollouts: list[Rollout] = []
    for row, (prompt, answer) in enumerate(zip(prompts, output_BT[:, width:].tolist(), strict=True)):
        ended = answer[: answer.index(END) + 1] if END in answer else answer
        group = row // config.group_size
        rollouts.append(Rollout(prompt + ended, len(prompt), score(tasks[group], ended), group))
    return rollouts


# ------------------------------------------------------------------------------------------------ learning


def answer_logps(model: LlamaForCausalLM, rollouts: Sequence[Rollout], config: Config) -> Tensor:
    """Return the log-probs of all answer tokens under the distribution they were sampled from, in rollout order."""
    width = max(len(rollout.token_ids) for rollout in rollouts)
    position_T = torch.arange(width)
    start_B = torch.tensor([rollout.prompt_length for rollout in rollouts])[:, None]
    end_B = torch.tensor([len(rollout.token_ids) for rollout in rollouts])[:, None]
    token_BT = torch.tensor([rollout.token_ids + [PAD] * (width - len(rollout.token_ids)) for rollout in rollouts])
    logit_BTV = model(input_ids=token_BT, attention_mask=(position_T < end_B).long(), use_cache=False).logits
    logit_BTV = logit_BTV.float().index_fill(-1, torch.tensor(config.never_sampled), -torch.inf)
    logp_BTV = (logit_BTV[:, :-1] / config.temperature).log_softmax(-1)  # logits at t predict the token at t + 1
    logp_BT = logp_BTV.gather(-1, token_BT[:, 1:, None]).squeeze(-1)
    return logp_BT[((position_T >= start_B) & (position_T < end_B))[:, 1:]]


def advantages(rollouts: Sequence[Rollout]) -> list[float]:
    """Return each reward relative to its group: (reward - mean) / std, or 0 if all rewards are equal."""
    result = [0.0] * len(rollouts)
    for group in {rollout.group for rollout in rollouts}:
        members = [i for i, rollout in enumerate(rollouts) if rollout.group == group]
        reward_G = torch.tensor([rollouts[i].reward for i in members], dtype=torch.float64)
        if len(members) > 1 and reward_G.max() > reward_G.min():
            advantage_G = (reward_G - reward_G.mean()) / (reward_G.std() + 1e-6)
            for i, advantage in zip(members, advantage_G.tolist(), strict=True):
                result[i] = advantage
    return result


def token_losses(
    logp_N: Tensor, old_logp_N: Tensor, reference_logp_N: Tensor, advantage_N: Tensor, c: Config
) -> Tensor:
    """Return the clipped surrogate loss plus KL penalty of every token."""
    ratio_N = (logp_N - old_logp_N).exp()
    clipped_N = ratio_N.clamp(1 - c.clip_low, 1 + c.clip_high)
    delta_N = logp_N - reference_logp_N
    kl_N = torch.expm1(-delta_N) + delta_N
    return -torch.minimum(ratio_N * advantage_N, clipped_N * advantage_N) + c.kl_coefficient * kl_N


def update(
    model: LlamaForCausalLM,
    optimizer: torch.optim.Optimizer,
    rollouts: Sequence[Rollout],
    reference_logps: Sequence[Tensor],
    config: Config,
    microbatches: list[list[int]] | None = None,
) -> dict[str, float]:
    """Take one optimiser step on a batch of complete groups, given the reference log-probs of each rollout's answer.

    ``microbatches`` lists which rollouts (by index) go through the model together; the gradient is that of the whole
    batch for any split. With one step per batch, the current policy is the one that sampled, so ``old_logp`` equals
    ``logp`` without its gradient: the ratio is 1, and only its derivative matters.
    """
    if microbatches is None:
        rows = list(range(len(rollouts)))
        microbatches = [rows[i : i + config.microbatch_rows] for i in range(0, len(rows), config.microbatch_rows)]
    advantage_M = torch.tensor(advantages(rollouts))
    length_M = torch.tensor([rollout.answer_length for rollout in rollouts])
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for microbatch in microbatches:
        logp_N = answer_logps(model, [rollouts[i] for i in microbatch], config)
        reference_logp_N = torch.cat([reference_logps[i] for i in microbatch])
        rollout_N = torch.tensor(microbatch).repeat_interleave(length_M[microbatch])
        loss_N = token_losses(logp_N, logp_N.detach(), reference_logp_N, advantage_M[rollout_N], config)
        loss = (loss_N / length_M[rollout_N]).sum() / len(rollouts)
        loss.backward()
        total += loss.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
    optimizer.step()
    return {"loss": total, "grad_norm": norm.item()}


# ------------------------------------------------------------------------------------------------ loop


def train(config: Config) -> list[float]:
    """Train from scratch, print progress, and return the mean reward of every step."""
    model = make_model(config.seed).eval()  # no dropout, so the scored policy is the one that sampled
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    generator = random.Random(config.seed)
    means: list[float] = []
    for step in range(config.steps):
        tasks = [draw_task(generator) for _ in range(config.tasks_per_step)]
        rollouts = sample(model, tasks, config)
        with torch.no_grad():
            reference_logp_N = answer_logps(reference, rollouts, config)
        reference_logps = reference_logp_N.split([rollout.answer_length for rollout in rollouts])
        metrics = update(model, optimizer, rollouts, reference_logps, config)
        means.append(sum(rollout.reward for rollout in rollouts) / len(rollouts))
        if step % 10 == 0 or step == config.steps - 1:
            solved = sum(rollout.reward == 1 for rollout in rollouts) / len(rollouts)
            print(f"step {step:4d}  reward {means[-1]:.3f}  solved {solved:.3f}  grad norm {metrics['grad_norm']:.2f}")
    return means


def main() -> None:
    torch.set_num_threads(1)  # a model this small is fastest on one thread
    start = time.perf_counter()
    means = train(Config())
    print(f"mean reward {means[0]:.3f} -> {sum(means[-10:]) / 10:.3f} in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
