"""Each combination that cannot work is refused with its reason, and its way out is accepted."""

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
"""Values of the recipes that the cases below count on."""

REFUSED: dict[str, list[tuple[list[str], str]]] = {
    "infill": [
        (["--tasks.chat=always"], "tasks.chat = 'always': a masked model fills holes and has no chat"),
        (["--tasks.system=a"], "tasks.system = 'a': a masked model fills holes and has no chat"),
        (["--sampling.supports=replayed"], "the supports of a masked model are stored"),
        (["--sampling.staleness=1"], "a masked model does not sample ahead of the learner"),
        (["--sampling.engine=vllm", "--model.scratch=none", "--model.path=x"], "only the policy itself fills in"),
        (["--model.kind=causal"], "begins with the body of a model of kind = 'masked'"),
        (["--model.kind=causal", "--judge=none", "--sampling.fill_steps=2"], "only kind = 'masked' fills in steps"),
        (["--constraint", '{kind = "regex", source = "a"}'], "constraints are followed from left to right"),
        (["--domain=none", "--warmstart=none", "--tasks.prompts", '["a"]', "--verify.verifier", "m:f",
          "--evaluate.every=0", "--model.scratch.vocabulary", '["a"]'], "learns from the examples of a [domain]"),
    ],
    "text": [
        ([*PASS, "--verify.floor=-1.0"], "verify.floor = -1.0: advantage = 'pass_at_k' needs rewards of 0 or 1"),
        (["--model.path", "none"], "model: no model: set model.path (hub id or folder) or the table model.scratch"),
        (["--model.scratch.vocabulary", '["a"]'], "model.path and model.scratch are given"),
        (["--run.supplied", '["model"]'], "model.path and a model from Python are given"),
        (["--model.dtype=float16", "--model.lora=none"], "weights trained in float16 lose small updates"),
        (["--model.autocast=bfloat16"], "over float32 weights, but dtype is auto"),
        (["--model.quantize=4bit", "--model.lora=none"], "model.quantize = '4bit': quantised weights are frozen"),
        (["--tasks", "none", "--evaluate.every=0"], "no tasks: set one of tasks.file, tasks.dataset"),
        (["--tasks.file", "none"], "no tasks: set one of"),
        (["--tasks.dataset", "x/y"], "tasks.file and tasks.dataset are given"),
        (["--run.supplied", '["tasks"]'], "tasks.file and tasks from Python are given"),
        (["--tasks.system", "Be brief.", "--tasks.chat=never"], "tasks.system = 'Be brief.': a system message is sent"),
        (["--tasks.subset", "main"], "tasks.subset = 'main': names a part of tasks.dataset"),
        (["--tasks.eval_file", "e.jsonl"], "tasks.held_out = 0.1: evaluation tasks are already given separately"),
        (["--run.supplied", '["eval_tasks"]'], "tasks.held_out = 0.1: evaluation tasks are already given separately"),
        (["--domain.name", "sequences", "--verify.verifier=none"], "a domain brings its own tasks"),
        (["--run.supplied", '["domain"]', "--tasks", "none"], "the domain from Python brings its own verifier"),
        (["--run.supplied", '["domain"]', "--verify.verifier=none"], "a domain brings its own tasks"),
        (["--run.supplied", '["domain"]', "--tasks", "none", "--verify.verifier=none", "--cluster.learners.ranks=2"],
         "a domain from Python cannot travel to the ranks"),
        (["--tasks.source.kind=mixtures"], "or a class as module:Class; did you mean mixture?"),
        (["--tasks.source.kind=generated", "--tasks.source.function=m:f"], "does not draw from tasks.file"),
        (["--tasks.source.kind=generated", "--tasks.file=none", "--tasks.held_out=0", "--evaluate.every=0"],
         "tasks.source.function: is required without a [domain]"),
        (["--tasks.source", '{kind = "dataset", options = {a = 1}}'], "is read by kind = 'module:Class'"),
        ([*MIXED, "[]"], "tasks.source.parts: is empty"),
        ([*MIXED, '[{name = "a"}]'], "file, dataset, prompts and domain_split; it has none"),
        ([*MIXED, '[{name = "a", file = "f", prompts = ["p"]}]'], "it has file and prompts"),
        ([*MIXED, '[{name = "a", domain_split = "train"}]'], "needs a [domain], whose split it is"),
        ([*MIXED, '[{name = "a", file = "f"}, {name = "a", file = "g"}]'], "is the name of another part"),
        ([*MIXED, '[{name = "a", file = "f"}]', "--tasks.held_out=0.5"], "divides tasks that are listed"),
        (["--verify.verifier", "none"], "verify.verifier: nothing checks the samples"),
        (["--verify.verifiers", '[{function="a:b"}]'], "is the short form for a single verifier"),
        (["--run.supplied", '["verifier"]'], "a verifier was also handed over from Python"),
        (["--domain.name", "bricks", "--tasks", "none", "--verify.verifier", "none", "--warmstart.batch=64", *KL,
          "--reference.carrier=adapter_off"], "so the model without it is not where it began"),
        (["--warmstart.batch", "64"], "needs a [domain], whose examples it begins from"),
        (["--constraint.kind=regex"], "constraint: needs exactly one of source, file and column; it has none"),
        (["--constraint", '{kind = "lark", source = "a", file = "b"}'], "column; it has source and file"),
        (["--constraint", '{kind = "json_schema", source = "a"}'], "for kind = 'json_schema' it must be a table"),
        (["--constraint", '{kind = "choices", source = "a"}'], "for kind = 'choices' it must be a list of texts"),
        (["--constraint", '{kind = "automaton", source = "a"}'], "must be the automaton's class as module:Class"),
        (["--constraint", '{kind = "automaton", column = "a"}'], "name it in constraint.source as module:Class"),
        (["--constraint", '{kind = "automaton", source = "a:B", canonical_runs = true}'], "an automaton says itself"),
        (["--constraint", '{kind = "regex", source = "a", over = "words"}'], "belongs to kind = 'automaton'"),
        (["--constraint", '{kind = "regex", source = "a", options = {a = 1}}'], "belongs to kind = 'automaton'"),
        (["--constraint", '{kind = "regex", source = "a"}', "--run.supplied", '["constraint"]'], "also handed over"),
        (["--cluster.learners", '{sharding = "ddp", offload = true}'], "is an option of sharding = 'fsdp'"),
        (["--model.quantize=4bit", "--cluster.learners.ranks=2"], "cannot be divided among ranks; use cluster"),
        (["--model.dtype=float16", "--cluster.learners.ranks=2"], "a group of learner ranks does not scale losses"),
        (["--run.supplied", '["model"]', "--model.path=none", "--cluster.learners.ranks=2"],
         "a model from Python cannot travel to the ranks"),
        (["--cluster.samplers.replicas=2"], "replicas are of vLLM, but sampling.engine is 'local'"),
        (["--sampling.vllm.memory=0.3"], "belongs to engine = 'vllm', but sampling.engine is 'local'"),
        (["--sampling.engine=vllm", "--sampling.max_new_tokens=64", "--sampling.vllm.max_length=64"],
         "leaves no room for a prompt beside sampling.max_new_tokens (64)"),
        (["--sampling.engine=vllm", "--sampling.vllm.lora=serve", "--model.lora=none"], "there is no [model.lora]"),
        (["--sampling.engine=vllm", "--model.quantize=4bit"], "vLLM would sample from other weights than are trained"),
        (["--evaluate.ks", "[1, 4]"], "pass@k needs 1 <= k <= evaluate.samples (1)"),
        (["--evaluate.ks", "[0]"], "pass@k needs 1 <= k"),
        (["--tasks.held_out", "0"], "evaluate.every = 20: there are no tasks that training never sees"),
        (["--reference.carrier=adapter_off", "--reference.mode=ema", "--reference.ema_decay=0.9"],
         "the model without its adapter never changes, so it cannot be mode = 'ema'; use 'adapter'"),
        (["--reference.carrier=adapter_off", "--reference.mode=periodic", "--reference.every=5"],
         "so it cannot be mode = 'periodic'"),
        (["--reference.carrier=adapter_off", "--model.lora.adapter", "a"], "training starts from a trained adapter"),
        (["--reference.carrier=adapter_off", "--model.lora=none"], "there is no adapter"),
        (["--reference.carrier=adapter", "--model.lora=none"], "there is no adapter"),
        (["--reference.device=cpu", "--reference.carrier=adapter"], "shares the policy's weights and stays with them"),
        (["--reference.device=cpu", "--reference.carrier=adapter_off"], "shares the policy's weights"),
    ],
    "sequences": [
        (["--warmstart.batch", "64", "--model.scratch", "none", "--run.supplied", '["model"]'], "one was handed over"),
        (["--model.scratch.width=250"], "model.scratch.width = 250: must be a multiple of heads (4)"),
        (["--model.scratch.width=20"], "width/heads is 5; rotary positions need an even number"),
        (["--model.scratch.kv_heads=3"], "model.scratch.kv_heads = 3: must divide heads (4)"),
        (["--model.scratch.max_length=16"], "leaves no room for a prompt beside sampling.max_new_tokens (16)"),
        (OWN_TASKS, "model.scratch.vocabulary: is required without a [domain]"),
        (["--model.quantize=8bit", "--model.lora.rank=4"], "a model from scratch has no weights worth freezing"),
        (["--verify.verifier", "m:f"], "verify.verifier = 'm:f': the domain sequences brings its own verifier"),
        (["--run.supplied", '["verifier"]'], "the domain sequences brings its own verifier"),
        (["--run.supplied", '["tasks"]'], "a domain brings its own tasks"),
        (["--run.supplied", '["domain"]'], "a domain was also handed over from Python"),
        (["--credit.min_scored=17"], "no group has that many samples (sampling.group_size is 16)"),
        (["--credit.truncation_penalty=0.5"], "is taken off by truncated = 'penalise', but truncated is 'count'"),
        (["--credit.advantage=pass_at_k"], "credit.k: is required by advantage = 'pass_at_k'"),
        (["--credit.advantage=max_at_k"], "credit.k: is required by advantage = 'max_at_k'"),
        (["--credit.k=2"], "credit.k = 2: advantage = 'group_norm' has no k"),
        (["--credit.advantage=pass_at_k", "--credit.k=17"], "cannot exceed sampling.group_size (16)"),
        (["--credit.advantage=max_at_k", "--credit.k=1"], "which is advantage = 'rloo'"),
        ([*PASS, "--credit.truncated=penalise"], "use advantage = 'max_at_k', or truncated = 'mask'"),
        ([*PASS, "--credit.length_penalty.start=4"], "length_penalty.weight = 1.0: advantage = 'pass_at_k' needs"),
        ([*PASS, *KL, "--loss.kl.placement=reward", "--loss.kl.estimator=k1"], "kl.placement = 'reward': advantage"),
        (["--credit.length_penalty", "{start = 4, limit = 17}"], "no sample gets there: sampling.max_new_tokens is 16"),
        (["--credit.length_penalty.start=16"], "must be below the limit (16), where the penalty is full"),
        (["--loss.surrogate=cispo", "--loss.clip_high=0.2"], "has no clip range; its own bound is loss.ratio_cap"),
        (["--loss.surrogate=reinforce", "--loss.clip_low=0.2"], "surrogate = 'reinforce' has no clip range"),
        (["--loss.ratio_cap=3.0"], "only cispo caps the ratio"),
        (["--loss.surrogate=gspo", "--loss.dual_clip=3.0"], "only ppo_clip has a dual clip"),
        (["--loss.surrogate=gspo", "--loss.aggregation=token_mean"], "gspo has one ratio per sequence"),
        (["--loss.surrogate=gspo", "--loss.aggregation=constant"], "gspo has one ratio per sequence"),
        (["--loss.constant_length=5"], "is the divisor of aggregation = 'constant'"),
        ([*KL, "--loss.kl.estimator=k1"], "the expected gradient of k1 in the loss is zero"),
        ([*KL, "--loss.kl.placement=reward"], "in the reward only k1 gives an unbiased gradient"),
        (["--loss.kl.adaptive.target=0.1"], "from 0 it never moves"),
        (["--loss.kl.adaptive.target=0.1", "--loss.kl.coefficient", '{kind="linear", start=1, end=0}'], "steers"),
        (["--loss.kl.adaptive.target=0.1", "--loss.kl.coefficient", "{start=1, warmup=3}"], "steers itself"),
        (["--loss.entropy.coefficient", '{kind="cosine", start=1}'], "coefficient.end: is required by kind = 'cosine'"),
        (["--loss.entropy.coefficient", "{start=1, end=0}"], "a constant has no end"),
        (["--loss.kl.coefficient", '{kind="linear", start=1, end=0, steps=5, warmup=5}'],
         "loss.kl.coefficient.warmup = 5: must be smaller than loss.kl.coefficient.steps (5)"),
        ([*KL, "--reference.ema_decay=0.9"], "only works with mode = 'ema', but mode is 'static'"),
        ([*KL, "--reference.every=5"], "only works with mode = 'periodic', but mode is 'static'"),
        ([*KL, "--reference.mode=ema"], "reference.ema_decay: is required by mode = 'ema'"),
        ([*KL, "--reference.mode=periodic"], "reference.every: is required by mode = 'periodic'"),
        (["--reference.mode=ema", "--reference.ema_decay=0.9"], "nothing uses the reference"),
        (["--loss.surrogate=reinforce", "--optimiser.epochs=2"], "only the first of 2 updates"),
        (["--loss.surrogate=reinforce", "--optimiser.minibatches=4"], "only the first of 4 updates"),
        (["--optimiser.minibatches=9", "--sampling.tasks_per_step=2", "--sampling.group_size=4"], "has only 8 samples"),
        (["--optimiser.betas", "[0.9, 1.0]"], "both must be at least 0 and below 1"),
        (["--optimiser.rounding=master"], "model.dtype is 'float32'"),
        (["--model.dtype=bfloat16", "--model.lora.rank=8", "--optimiser.rounding=nearest"], "adapters are float32"),
        (["--evaluate.every=0", "--checkpoint.best_metric", "eval/success"], "nothing is evaluated"),
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
        ["--constraint", '{kind = "choices", source = ["a", "b"], canonical_runs = false}'],
        ["--constraint", '{kind = "json_schema", source = {type = "object"}}'],
        ["--constraint", '{kind = "json_schema", column = "schema"}'],
        ["--constraint", '{kind = "automaton", source = "a:B", over = "characters", options = {depth = 3}}'],
        ["--sampling.supports=replayed"],
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
        ["--reference.carrier=adapter_off"],
        ["--reference.carrier=adapter", "--reference.mode=ema", "--reference.ema_decay=0.9"],
        ["--reference.carrier=adapter", "--model.lora.adapter=a"],
        ["--reference.device=cpu"],
        ["--reference.device=cpu", "--reference.carrier=copy"],
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
    ('{function = "a:b", kind = "classifier"}', "a function does not need it"),
    ('{function = "a:b", size = 3}', "is the number of samples per call of mode = 'batch'"),
    ('{function = "a:b", mode = "batch"}', "needs size, the number of samples per call"),
]


@pytest.mark.parametrize(("recipe", "overrides", "reason"), [(r, o, t) for r in REFUSED for o, t in REFUSED[r]])
def test_refused_with_the_reason(recipe: str, overrides: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(recipe, [*PINNED[recipe], *overrides])
    assert reason in str(caught.value)
    assert "problems" not in str(caught.value), "one mistake, one problem"


@pytest.mark.parametrize(("recipe", "overrides"), [(r, o) for r in ACCEPTED for o in ACCEPTED[r]])
def test_the_way_out_is_accepted(recipe: str, overrides: list[str]) -> None:
    load(recipe, [*PINNED[recipe], *overrides])


@pytest.mark.parametrize(("entry", "reason"), ENTRIES)
def test_a_verifier_entry_that_cannot_work_is_refused(entry: str, reason: str) -> None:
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
                           "--sampling.supports=replayed"])  # fmt: skip
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
    "constraint.kind": ["--constraint.source=m:A"],
    "constraint.over": ["--constraint.kind=automaton", "--constraint.source=m:A"],
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
"""What a choice needs with it."""


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
