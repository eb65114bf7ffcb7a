"""Every combination that cannot work is rejected with a reason, and the suggested solution is accepted."""

from __future__ import annotations

import pytest

from steelyard.config import describe, load
from steelyard.errors import ConfigError

OWN_TASKS = ["--domain", "none", "--tasks.prompts", '["a"]', "--verify.verifier", "m:f", "--evaluate.every", "0"]
KL = ["--loss.kl.coefficient=0.1"]
PASS = ["--credit.advantage=pass_at_k", "--credit.k=2"]
MIXED = ["--tasks.file=none", "--tasks.held_out=0", "--evaluate.every=0", "--tasks.source.kind=mixture",
         "--tasks.source.parts"]  # fmt: skip
PINNED = {
    "text": [],
    "infill": [],
    "sequences": ["--sampling.group_size=16", "--sampling.max_new_tokens=16", "--loss.aggregation=sequence_mean"],
}
"""Recipe values that the cases below rely on."""

REJECTED: dict[str, list[tuple[list[str], str]]] = {
    "infill": [
        (["--tasks.chat=always"], "tasks.chat = 'always': masked models"),
        (["--tasks.system=a"], "tasks.system = 'a': masked models"),
        (["--sampling.supports=recomputed"], "sampling.supports = 'recomputed': masked models"),
        (["--sampling.staleness=1"], "sampling.staleness = 1: masked models"),
        (["--sampling.engine=vllm", "--model.scratch=none", "--model.path=x"], "use engine = 'local'"),
        (["--model.kind=causal"], "judge: starts from the body of a model with kind = 'masked'"),
        (["--model.kind=causal", "--judge=none", "--sampling.fill_steps=2"], "only kind = 'masked' fills in steps"),
        (["--constraint", '{kind = "regex", source = "a"}'], "constraint: constraints work from left to right"),
        (["--episode.tools", '["calculator"]'], "a masked model fills in holes and cannot call tools"),
        (["--domain=none", "--warmstart=none", "--tasks.prompts", '["a"]', "--verify.verifier", "m:f",
          "--evaluate.every=0", "--model.scratch.vocabulary", '["a"]'], "judge: learns from the examples"),
    ],
    "text": [
        ([*PASS, "--verify.floor=-1.0"], "verify.floor = -1.0: advantage = 'pass_at_k' needs rewards of 0 or 1"),
        (["--model.path", "none"], "set model.path (hub id or folder) or the table model.scratch"),
        (["--model.scratch.vocabulary", '["a"]'], "model.path and model.scratch are specified"),
        (["--run.supplied", '["model"]'], "model.path and a model from Python are specified"),
        (["--model.dtype=float16", "--model.lora=none"], "model.dtype = 'float16': training float16 weights"),
        (["--model.autocast=bfloat16"], "needs float32 weights, but model.dtype is auto"),
        (["--model.quantize=4bit", "--model.lora=none"], "model.quantize = '4bit': quantised weights are frozen"),
        (["--tasks", "none", "--evaluate.every=0"], "set tasks.file, tasks.dataset"),
        (["--tasks.file", "none"], "set tasks.file"),
        (["--tasks.dataset", "x/y"], "tasks.file and tasks.dataset are specified"),
        (["--run.supplied", '["tasks"]'], "tasks.file and tasks from Python are specified"),
        (["--tasks.system", "Be brief.", "--tasks.chat=never"], "tasks.system = 'Be brief.': a system message"),
        (["--tasks.subset", "main"], "tasks.subset = 'main': selects a part of tasks.dataset"),
        (["--tasks.eval_file", "e.jsonl"], "tasks.held_out = 0.1: evaluation tasks are already given separately"),
        (["--run.supplied", '["eval_tasks"]'], "tasks.held_out = 0.1: evaluation tasks are already given separately"),
        (["--domain.name", "sequences", "--verify.verifier=none"], "domain provides its own tasks"),
        (["--run.supplied", '["domain"]', "--tasks", "none"], "the domain from Python provides its own verifier"),
        (["--run.supplied", '["domain"]', "--verify.verifier=none"], "domain provides its own tasks"),
        (["--run.supplied", '["domain"]', "--tasks", "none", "--verify.verifier=none", "--cluster.learners.ranks=2"],
         "set domain.name = 'module:Class'"),
        (["--tasks.source.kind=mixtures"], "or a class as module:Class; did you mean mixture?"),
        (["--tasks.source.kind=generated", "--tasks.source.function=m:f"], "does not use tasks.file"),
        (["--tasks.source.kind=generated", "--tasks.file=none", "--tasks.held_out=0", "--evaluate.every=0"],
         "tasks.source.function: is required without a [domain]"),
        (["--tasks.source", '{kind = "dataset", options = {a = 1}}'], "applies to kind = 'module:Class'"),
        ([*MIXED, "[]"], "tasks.source.parts: is empty"),
        ([*MIXED, '[{name = "a"}]'], "file, dataset, prompts and domain_split; it has none"),
        ([*MIXED, '[{name = "a", file = "f", prompts = ["p"]}]'], "it has file and prompts"),
        ([*MIXED, '[{name = "a", domain_split = "train"}]'], "domain_split = 'train': needs a [domain]"),
        ([*MIXED, '[{name = "a", file = "f"}, {name = "a", file = "g"}]'], "is also the name of another part"),
        ([*MIXED, '[{name = "a", file = "f"}]', "--tasks.held_out=0.5"], "set tasks.eval_file instead"),
        (["--verify.verifier", "none"], "verify.verifier: no verifier specified"),
        (["--verify.verifiers", '[{function="a:b"}]'], "move it to verify.verifiers"),
        (["--run.supplied", '["verifier"]'], "a verifier was also passed from Python"),
        (["--domain.name", "bricks", "--tasks", "none", "--verify.verifier", "none", "--warmstart.batch=64", *KL,
          "--reference.storage=adapter_off"], "training starts from a trained adapter"),
        (["--warmstart.batch", "64"], "warmstart: needs a [domain]"),
        (["--constraint.kind=tools"], "constraint.kind = 'tools': there are no tools to call; set episode.tools"),
        (["--episode.tools", '["calculater"]'], "or your own as module:function; did you mean calculator?"),
        (["--episode.tools", '["calculator"]', "--run.supplied", '["tools"]'], "tools were also passed from Python"),
        (["--constraint", '{kind = "tools", source = "a", file = "b"}', "--episode.tools", '["python"]'],
         "column; it has source and file"),
        (["--constraint.kind=regex"], "constraint: needs exactly one of source, file and column; it has none"),
        (["--constraint", '{kind = "lark", source = "a", file = "b"}'], "column; it has source and file"),
        (["--constraint", '{kind = "json_schema", source = "a"}'], "must be a table for kind = 'json_schema'"),
        (["--constraint", '{kind = "choices", source = "a"}'], "must be a list of strings for kind = 'choices'"),
        (["--constraint", '{kind = "automaton", source = "a"}'], "must be the automaton's class as module:Class"),
        (["--constraint", '{kind = "automaton", column = "a"}'], "name it in constraint.source as module:Class"),
        (["--constraint", '{kind = "automaton", source = "a:B", canonical_tokens = true}'], "canonical_tokens = True"),
        (["--constraint", '{kind = "regex", source = "a", symbols = "words"}'], "applies only to kind = 'automaton'"),
        (["--constraint", '{kind = "regex", source = "a", options = {a = 1}}'], "applies only to kind = 'automaton'"),
        (["--constraint", '{kind = "regex", source = "a"}', "--run.supplied", '["constraint"]'], "also passed"),
        (["--cluster.learners", '{sharding = "ddp", offload = true}'], "applies only to sharding = 'fsdp'"),
        (["--model.quantize=4bit", "--cluster.learners.ranks=2"], "cannot be sharded over ranks; use cluster"),
        (["--model.dtype=float16", "--cluster.learners.ranks=2"], "model.dtype = 'float16': learners on a cluster"),
        (["--run.supplied", '["model"]', "--model.path=none", "--cluster.learners.ranks=2"],
         "save it and set model.path"),
        (["--cluster.samplers.replicas=2"], "but sampling.engine is 'local'; set it to vllm"),
        (["--sampling.vllm.memory=0.3"], "applies only to sampling.engine = 'vllm', but it is 'local'"),
        (["--sampling.engine=vllm", "--sampling.max_new_tokens=64", "--sampling.vllm.max_length=64"],
         "must exceed sampling.max_new_tokens (64)"),
        (["--sampling.engine=vllm", "--sampling.vllm.lora=serve", "--model.lora=none"], "there is no [model.lora]"),
        (["--sampling.engine=vllm", "--model.quantize=4bit"], "model.quantize = '4bit': vLLM would not sample"),
        (["--evaluate.ks", "[1, 4]"], "pass@k needs 1 <= k <= evaluate.samples (1)"),
        (["--evaluate.ks", "[0]"], "pass@k needs 1 <= k"),
        (["--tasks.held_out", "0"], "evaluate.every = 20: no tasks are held out"),
        (["--reference.storage=adapter_off", "--reference.mode=ema", "--reference.ema_decay=0.9"],
         "the model without its adapter never changes, so it cannot be mode = 'ema'; use 'adapter'"),
        (["--reference.storage=adapter_off", "--reference.mode=periodic", "--reference.every=5"],
         "so it cannot be mode = 'periodic'"),
        (["--reference.storage=adapter_off", "--model.lora.adapter", "a"], "training starts from a trained adapter"),
        (["--reference.storage=adapter_off", "--model.lora=none"], "there is no adapter"),
        (["--reference.storage=adapter", "--model.lora=none"], "there is no adapter"),
        (["--reference.device=cpu", "--reference.storage=adapter"], "shares the policy's weights and device"),
        (["--reference.device=cpu", "--reference.storage=adapter_off"], "shares the policy's weights"),
    ],
    "sequences": [
        (["--warmstart.batch", "64", "--model.scratch", "none", "--run.supplied", '["model"]'], "one was passed"),
        (["--model.scratch.width=250"], "model.scratch.width = 250: must be a multiple of model.scratch.heads (4)"),
        (["--model.scratch.width=20"], "model.scratch.width = 20: width/heads is 5"),
        (["--model.scratch.kv_heads=3"], "model.scratch.kv_heads = 3: must divide model.scratch.heads (4)"),
        (["--model.scratch.max_length=16"], "must exceed sampling.max_new_tokens (16)"),
        (OWN_TASKS, "model.scratch.vocabulary: is required without a [domain]"),
        (["--model.quantize=8bit", "--model.lora.rank=4"], "model.quantize = '8bit': a model from scratch"),
        (["--verify.verifier", "m:f"], "verify.verifier = 'm:f': the domain sequences provides its own verifier"),
        (["--run.supplied", '["verifier"]'], "the domain sequences provides its own verifier"),
        (["--run.supplied", '["tasks"]'], "domain provides its own tasks"),
        (["--run.supplied", '["domain"]'], "a domain was also passed from Python"),
        (["--credit.min_scored=17"], "must not exceed sampling.group_size (16)"),
        (["--credit.truncation_penalty=0.5"], "applies only to truncated = 'penalise', but truncated is 'count'"),
        (["--credit.advantage=pass_at_k"], "credit.k: is required by advantage = 'pass_at_k'"),
        (["--credit.advantage=max_at_k"], "credit.k: is required by advantage = 'max_at_k'"),
        (["--credit.k=2"], "credit.k = 2: advantage = 'group_norm' does not use k"),
        (["--credit.advantage=pass_at_k", "--credit.k=17"], "must not exceed sampling.group_size (16)"),
        (["--credit.advantage=max_at_k", "--credit.k=1"], "which is advantage = 'rloo'"),
        ([*PASS, "--credit.truncated=penalise"], "use advantage = 'max_at_k', or truncated = 'mask'"),
        ([*PASS, "--credit.length_penalty.start=4"], "length_penalty.weight = 1.0: advantage = 'pass_at_k' needs"),
        ([*PASS, *KL, "--loss.kl.placement=reward", "--loss.kl.estimator=k1"], "kl.placement = 'reward': advantage"),
        (["--credit.length_penalty", "{start = 4, limit = 17}"], "must not exceed sampling.max_new_tokens (16)"),
        (["--credit.length_penalty.start=16"], "must be smaller than credit.length_penalty.limit (16)"),
        (["--loss.surrogate=cispo", "--loss.clip_high=0.2"], "has no clip range; use loss.ratio_cap"),
        (["--loss.surrogate=reinforce", "--loss.clip_low=0.2"], "surrogate = 'reinforce' has no clip range"),
        (["--loss.ratio_cap=3.0"], "loss.ratio_cap = 3.0: applies only to surrogate = 'cispo'"),
        (["--loss.surrogate=gspo", "--loss.dual_clip=3.0"], "applies only to surrogate = 'ppo_clip'"),
        (["--loss.surrogate=gspo", "--loss.aggregation=token_mean"], "gspo has one ratio per sequence"),
        (["--loss.surrogate=gspo", "--loss.aggregation=constant"], "gspo has one ratio per sequence"),
        (["--loss.constant_length=5"], "applies only to aggregation = 'constant'"),
        ([*KL, "--loss.kl.estimator=k1"], "loss.kl.estimator = 'k1': the expected gradient of k1"),
        ([*KL, "--loss.kl.placement=reward"], "use estimator = 'k1' or placement = 'loss'"),
        (["--loss.kl.adaptive.target=0.1"], "start above 0, such as 0.05"),
        (["--loss.kl.adaptive.target=0.1", "--loss.kl.coefficient", '{kind="linear", start=1, end=0}'], "set a number"),
        (["--loss.kl.adaptive.target=0.1", "--loss.kl.coefficient", "{start=1, warmup=3}"], "set a number"),
        (["--loss.entropy.coefficient", '{kind="cosine", start=1}'], "coefficient.end: is required by kind = 'cosine'"),
        (["--loss.entropy.coefficient", "{start=1, end=0}"], "a constant has no end"),
        (["--loss.kl.coefficient", '{kind="linear", start=1, end=0, steps=5, warmup=5}'],
         "loss.kl.coefficient.warmup = 5: must be smaller than loss.kl.coefficient.steps (5)"),
        ([*KL, "--reference.ema_decay=0.9"], "applies only to mode = 'ema', but mode is 'static'"),
        ([*KL, "--reference.every=5"], "applies only to mode = 'periodic', but mode is 'static'"),
        ([*KL, "--reference.mode=ema"], "reference.ema_decay: is required by mode = 'ema'"),
        ([*KL, "--reference.mode=periodic"], "reference.every: is required by mode = 'periodic'"),
        (["--reference.mode=ema", "--reference.ema_decay=0.9"], "reference.mode = 'ema': the reference is not used"),
        (["--loss.surrogate=reinforce", "--optimiser.epochs=2"], "only the first of 2 updates"),
        (["--loss.surrogate=reinforce", "--optimiser.minibatches=4"], "only the first of 4 updates"),
        (["--optimiser.minibatches=9", "--sampling.tasks_per_step=2", "--sampling.group_size=4"], "the 8 samples"),
        (["--optimiser.betas", "[0.9, 1.0]"], "optimiser.betas = [0.9, 1.0]: both must be"),
        (["--optimiser.rounding=master"], "model.dtype is 'float32'"),
        (["--model.dtype=bfloat16", "--model.lora.rank=8", "--optimiser.rounding=nearest"], "adapters are float32"),
        (["--evaluate.every=0", "--checkpoint.best_metric", "eval/success"], "checkpoint.best_metric = 'eval/success'"),
    ],
}  # fmt: skip

ACCEPTED: dict[str, list[list[str]]] = {
    "infill": [
        ["--sampling.fill_steps=3", "--sampling.fill_order=left_to_right"],
        ["--judge=none"],
    ],
    "text": [
        ["--model.dtype=float16"],
        ["--run.supplied", '["domain"]', "--tasks", "none", "--verify.verifier=none"],
        ["--tasks.source.kind=dataset"],
        ["--tasks.source.kind=m:Source"],
        ["--tasks.source.kind=m:Source", "--tasks.file=none", "--tasks.held_out=0", "--evaluate.every=0"],
        [*MIXED, '[{name = "a", file = "f"}, {name = "b", prompts = ["p"], weight = 0.5}]'],
        ["--model.dtype=auto", "--model.lora=none"],
        [*PASS, "--verify.floor=1.0"],
        ["--verify.floor=-1.0"],
        ["--model.dtype=float32", "--model.autocast=float16", "--model.lora=none"],
        ["--model.quantize=4bit"],
        ["--model.path=none", "--run.supplied", '["model"]'],
        ["--constraint", '{kind = "regex", source = "a+"}'],
        ["--constraint.kind=tools", "--episode.tools", '["calculator", "mine:function"]'],
        ["--constraint", '{kind = "tools", source = "[0-9]+"}', "--run.supplied", '["tools"]'],
        ["--constraint", '{kind = "choices", source = ["a", "b"], canonical_tokens = false}'],
        ["--constraint", '{kind = "json_schema", source = {type = "object"}}'],
        ["--constraint", '{kind = "json_schema", column = "schema"}'],
        ["--constraint", '{kind = "automaton", source = "a:B", symbols = "characters", options = {depth = 3}}'],
        ["--sampling.supports=recomputed"],
        ["--cluster.learners", '{ranks = 8, sharding = "fsdp", offload = true}'],
        ["--cluster.learners", '{ranks = 2, sharding = "ddp"}', "--model.quantize=4bit"],
        ["--sampling.engine=vllm"],
        ["--sampling.engine=vllm", "--sampling.max_new_tokens=64", "--sampling.vllm", "{max_length=65, lora='serve'}"],
        ["--tasks.file=none", "--tasks.dataset=x/y", "--tasks.subset=main"],
        ["--tasks.file=none", "--verify.verifier=none", "--run.supplied", '["tasks", "verifier"]'],
        ["--tasks.held_out=0", "--tasks.eval_file=e.jsonl"],
        ["--tasks.held_out=0", "--run.supplied", '["eval_tasks"]'],
        ["--tasks.held_out=0", "--evaluate.every=0"],
        ["--tasks.held_out=200"],
        ["--evaluate.samples=4", "--evaluate.ks", "[1, 4]"],
        ["--reference.storage=adapter_off"],
        ["--reference.storage=adapter", "--reference.mode=ema", "--reference.ema_decay=0.9"],
        ["--reference.storage=adapter", "--model.lora.adapter=a"],
        ["--reference.device=cpu"],
        ["--reference.device=cpu", "--reference.storage=copy"],
        ["--reference.device=cpu", "--model.lora=none"],
    ],
    "sequences": [
        ["--warmstart", "{examples = 64, batch = 8, warmup_steps = 8}"],
        ["--tasks.chat=always", "--tasks.system=a"],
        [*OWN_TASKS, "--model.scratch.vocabulary", '["a", "b"]'],
        ["--sampling.group_size=2", "--sampling.temperature=0.5"],
        ["--credit.min_scored=16"],
        ["--credit.truncated=penalise", "--credit.truncation_penalty=0.5"],
        ["--credit.advantage=pass_at_k", "--credit.k=16"],
        [*PASS, "--credit.truncated=mask", *KL],
        [*PASS, "--credit.truncated=penalise", "--credit.truncation_penalty=0.0"],
        [*PASS, "--verify.floor=-1.0"],
        ["--credit.advantage=max_at_k", "--credit.k=2", "--credit.truncated=penalise"],
        ["--credit.advantage=max_at_k", "--credit.k=2"],
        ["--credit.advantage=mine:estimator"],
        ["--credit.advantage=mine:estimator", "--credit.k=4"],
        ["--credit.length_penalty", "{start = 4, limit = 16}"],
        ["--loss.surrogate=gspo"],
        ["--loss.surrogate=cispo", "--loss.ratio_cap=3.0", "--loss.aggregation=token_mean"],
        ["--loss.surrogate=reinforce"],
        ["--loss.dual_clip=1.5", "--optimiser.epochs=2", "--optimiser.minibatches=4"],
        ["--loss.aggregation=constant", "--loss.constant_length=5"],
        [*KL, "--loss.kl.estimator=k1", "--loss.kl.placement=reward"],
        [*KL, "--loss.kl.adaptive.target=0.1"],
        [*KL, "--reference.mode=ema", "--reference.ema_decay=0.9"],
        [*KL, "--reference.mode=periodic", "--reference.every=5"],
        ["--loss.kl.coefficient", '{kind="linear",start=0,end=1}', "--reference.mode=ema", "--reference.ema_decay=0.9"],
        ["--optimiser.minibatches=8", "--sampling.tasks_per_step=2", "--sampling.group_size=4"],
        ["--optimiser.betas", "[0.0, 0.99]"],
        ["--model.dtype=bfloat16", "--optimiser.rounding=master"],
        ["--model.dtype=bfloat16", "--optimiser.rounding=nearest"],
        ["--checkpoint.best_metric", "eval/success"],
        ["--evaluate.every=0", "--checkpoint.best_metric", "reward/mean"],
    ],
}  # fmt: skip

ENTRIES = [
    ("{weight = 2}", "needs exactly one of function (module:function) and model (hub id or folder)"),
    ('{function = "a:b", model = "m", kind = "classifier"}', "needs exactly one of function"),
    ('{model = "m"}', "verify.verifiers.0.kind: is required with model: classifier or likelihood"),
    (
        '{function = "a:b", kind = "classifier"}',
        "verify.verifiers.0.kind = 'classifier': applies only to an entry with a model",
    ),
    ('{function = "a:b", size = 3}', "verify.verifiers.0.size = 3: applies only to mode = 'batch'"),
    ('{function = "a:b", mode = "batch"}', "verify.verifiers.0.mode = 'batch': needs verify.verifiers.size"),
]


@pytest.mark.parametrize(("recipe", "overrides", "reason"), [(r, o, t) for r in REJECTED for o, t in REJECTED[r]])
def test_rejected_with_the_reason(recipe: str, overrides: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(recipe, [*PINNED[recipe], *overrides])
    assert reason in str(caught.value)
    assert "problems" not in str(caught.value), "one mistake, one problem"


@pytest.mark.parametrize(("recipe", "overrides"), [(r, o) for r in ACCEPTED for o in ACCEPTED[r]])
def test_the_solution_is_accepted(recipe: str, overrides: list[str]) -> None:
    load(recipe, [*PINNED[recipe], *overrides])


@pytest.mark.parametrize(("entry", "reason"), ENTRIES)
def test_a_verifier_entry_that_cannot_work_is_rejected(entry: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("text", ["--verify.verifier", "none", "--verify.verifiers", f"[{entry}]"])
    assert reason in str(caught.value)


def test_several_verifiers_are_accepted() -> None:
    entries = '[{function="a:b", mode="batch", size=4}, {model="m", kind="likelihood", weight=0.1, name="fluent"}]'
    config = load("text", ["--verify.verifier", "none", "--verify.verifiers", entries])
    assert [entry.name for entry in config.verify.entries] == [None, "fluent"]


def test_broken_rules_are_listed_together() -> None:
    with pytest.raises(ConfigError) as caught:
        load("sequences", ["--credit.k=2", "--loss.ratio_cap=3.0", "--sampling.staleness=1", "--sampling.top_k=2",
                           "--sampling.supports=recomputed"])  # fmt: skip
    assert str(caught.value).startswith("sequences: 3 problems\n")


CHOICES = [
    (key.key, choice)
    for key in describe()
    for choice in key.type.split(" or ")[-1].split("|")
    if "|" in key.type and "[]" not in key.key and key.key != "run.supplied"
]
VLLM = ["--sampling.engine=vllm"]
COMPANIONS: dict[str, list[str]] = {
    "constraint.kind = json_schema": ["--constraint.source={type='object'}"],
    "constraint.kind = choices": ["--constraint.source=['a']"],
    "constraint.kind = tools": ["--episode.tools=['calculator']"],
    "constraint.kind": ["--constraint.source=m:A"],
    "constraint.symbols": ["--constraint.kind=automaton", "--constraint.source=m:A"],
    "sampling.vllm.dtype": VLLM,
    "sampling.vllm.lora": VLLM,
    "loss.kl.coefficient.kind = constant": [],
    "loss.kl.coefficient.kind": ["--loss.kl.coefficient.end=0.1"],
    "loss.entropy.coefficient.kind = constant": [],
    "loss.entropy.coefficient.kind": ["--loss.entropy.coefficient.end=0.1"],
    "loss.kl.estimator = k1": ["--loss.kl.placement=reward"],
    "loss.kl.placement = reward": ["--loss.kl.estimator=k1"],
    "reference.mode = ema": [*KL, "--reference.ema_decay=0.9"],
    "reference.mode = periodic": [*KL, "--reference.every=9"],
    "optimiser.rounding": ["--model.dtype=bfloat16", "--model.lora=none"],
}
"""Other overrides that a choice requires."""


@pytest.mark.parametrize(("key", "choice"), CHOICES)
def test_no_choice_is_always_rejected(key: str, choice: str) -> None:
    companions = COMPANIONS.get(f"{key} = {choice}", COMPANIONS.get(key, []))
    own = [f"--{key}={choice}", *companions]
    answers: list[str] = []
    for recipe in ("sequences", "text", "infill"):
        try:
            load(recipe, [*PINNED[recipe], *own])
        except ConfigError as error:
            answers.append(str(error))
    assert len(answers) < 3, answers
