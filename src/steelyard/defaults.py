"""Default values shared by the configuration, the objects built from it, and the command line.

A default used by a single module stays in that module.
"""

from __future__ import annotations

from typing import Final

# --- sampling --------------------------------------------------------------------------------------------------------

MAX_NEW_TOKENS: Final = 64
MAX_ROWS: Final = 256
"""Maximum number of sequences decoded in one batch."""
SUPPORTS: Final = "stored"
FILL_STEPS: Final = 1
FILL_ORDER: Final = "random"
VLLM_MEMORY: Final = 0.4
"""Fraction of device memory that vLLM reserves."""

# --- credit ----------------------------------------------------------------------------------------------------------

GAMMA: Final = 1.0
CREDIT_PER: Final = "turn"
TRUNCATED: Final = "count"
TRUNCATION_PENALTY: Final = 1.0
LENGTH_PENALTY_WEIGHT: Final = 1.0
MIN_SCORED: Final = 2
SMALLEST_K: Final = {"pass_at_k": 1, "max_at_k": 2}
"""Advantage estimators that require ``credit.k``, with its smallest valid value."""

# --- loss ------------------------------------------------------------------------------------------------------------

CLIP_RANGES: Final = {"ppo_clip": (0.2, 0.2), "gspo": (3e-4, 4e-4)}
"""Surrogate -> (low, high): the ratio is clipped to [1 - low, 1 + high].

``ppo_clip`` is symmetric, as in PPO (arXiv 1707.06347) and GRPO (2402.03300). DAPO (2503.14476) raises only the upper
bound ("clip-higher"): ``loss.clip_high = 0.28``. ``gspo`` clips the ratio of whole sequences (2507.18071).
"""
RATIO_CAP: Final = 5.0
IMPORTANCE_CAP: Final = 2.0
"""Cap on the importance weight of samples from another engine or from older weights."""
AGGREGATION: Final = "sequence_mean"
KL_HORIZON_STEPS: Final = 10
"""Default horizon of the adaptive KL coefficient, in steps."""

# --- optimiser -------------------------------------------------------------------------------------------------------

BETAS: Final = (0.9, 0.999)
EPS: Final = 1e-8
WEIGHT_DECAY: Final = 0.0
ROUNDING: Final = "stochastic"
GRAD_CLIP: Final = 1.0
EPOCHS: Final = 1
MINIBATCHES: Final = 1
MAX_SKIPPED: Final = 5

# --- model -----------------------------------------------------------------------------------------------------------

LAYERS: Final = 4
WIDTH: Final = 256
HEADS: Final = 4
KV_HEADS: Final = 2
MAX_LENGTH: Final = 512
LORA_RANK: Final = 64
LORA_ALPHA: Final = 32
LORA_TARGETS: Final = "all-linear"

# --- tasks -----------------------------------------------------------------------------------------------------------

PROMPT_COLUMN: Final = "prompt"
DATASET_SPLIT: Final = "train"

# --- verification ----------------------------------------------------------------------------------------------------

SUCCESS_AT: Final = 1.0
LIMIT_SECONDS: Final = 60.0
LIMIT_MEMORY_MB: Final = 4096
LIMIT_FILE_MB: Final = 1024
LIMIT_OPEN_FILES: Final = 1024
LIMIT_OUTPUT_KB: Final = 1024
RECYCLE_ITEMS: Final = 10_000
RECYCLE_MEMORY_MB: Final = 1024
TRIES: Final = 2
MAX_UNSCORED: Final = 0.5
PAUSE_SECONDS: Final = 10.0

# --- evaluation, checkpoints, cluster --------------------------------------------------------------------------------

EVALUATION_SAMPLES: Final = 1
EVALUATION_KS: Final = (1,)
"""Values of k for evaluations during a run."""
REPORTED_KS: Final = (1, 4)
"""Values of k for ``steelyard eval`` and ``Run.evaluate``."""
SHOWN_SAMPLES: Final = 4
SHOWN_TASKS: Final = 1
"""Number of samples and tasks for ``steelyard sample`` and ``Run.sample``."""
CHECKPOINT: Final = "latest"
"""Checkpoint that commands open by default."""
KEEP_LAST: Final = 2
BEST_MODE: Final = "max"
CLUSTER: Final = "local"
SHARDING: Final = "fsdp"
LEARNER_TIMEOUT: Final = 1800.0
WANDB_PROJECT: Final = "steelyard"

# --- capacity planning -----------------------------------------------------------------------------------------------

CORES: Final = 64
CHECK_SECONDS: Final = 0.1
PUBLISH_GBS: Final = 5.0
