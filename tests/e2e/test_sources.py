"""``[tasks.source]``: a custom source and a mixture configured in TOML, trained and resumed exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Call

RUN = """
[run]
steps = 4

[model]
device = "cpu"

[model.scratch]
layers = 1
width = 16
heads = 2
max_length = 16
{vocabulary}

[sampling]
tasks_per_step = 4
group_size = 4
max_new_tokens = 3

[optimiser]
lr = 1e-2
warmup_steps = 0

[checkpoint]
every = 2

[tracking]
console = false
samples_every = 1
"""
TASKS = """
[verify]
verifier = "letters:score"
pool = "inline"
"""
DOMAIN = """
[domain]
name = "sequences"

[domain.options]
symbols = 4
"""
WORDS = 'vocabulary = ["say", "a", "b", "c"]'
LETTERS = """
from steelyard import Task


def score(task, text):
    return text.split().count(task.spec["letter"]) / 3


def make(number):
    letter = "abc"[number % 3]
    return {"prompt": f"say {letter}", "letter": letter}


class Harder:
    def __init__(self, context, *, letters):
        self.context, self.letters, self.at, self.seen = context, letters, 0, 0

    def draw(self, step, n):
        drawn = [self.letters[number % len(self.letters)] for number in range(self.at, self.at + n)]
        self.at += n
        return [Task(f"{letter}-{self.seen}", f"say {letter}", {"letter": letter}) for letter in drawn]

    def observe(self, groups):
        self.seen += len(groups)

    def state_dict(self):
        return {"at": self.at, "seen": self.seen}

    def load_state_dict(self, state):
        self.at, self.seen = state["at"], state["seen"]
"""
OWN = """
[tasks.source]
kind = "letters:Harder"
options = { letters = ["a", "b", "c"] }
"""
MIXTURE = """
[tasks]
template = "say {letter}"

[tasks.source]
kind = "mixture"

[[tasks.source.parts]]
name = "file"
weight = 3
file = "letters.jsonl"

[[tasks.source.parts]]
name = "written"
prompts = ["a"]
prompt_column = "letter"
"""
SPLITS = """
[tasks.source]
kind = "mixture"
parts = [{ name = "train", domain_split = "train" }, { name = "more", domain_split = "validation", weight = 2 }]
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("letters.py").write_text(LETTERS, encoding="utf-8")
    rows = [{"letter": "b"}, {"letter": "c"}]
    Path("letters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def train(call: Call, text: str, name: str, *words: str) -> None:
    Path(f"{name}.toml").write_text(text, encoding="utf-8")
    done = call("train", f"{name}.toml", "--run.name", name, *words)
    assert done.code == 0, done.err


def weights(run: str) -> bytes:
    return Path("runs", run, "checkpoints/step-00000004/model/model.safetensors").read_bytes()


def shown(run: str) -> set[str]:
    """Return the ids of the tasks whose samples were shown."""
    files = Path("runs", run, "artifacts").glob("samples-*.jsonl")
    return {json.loads(line)["task_id"] for file in files for line in file.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize(
    ("tables", "vocabulary", "drawn"),
    [
        (TASKS + OWN, WORDS, {"a-0", "b-4"}),
        (TASKS + MIXTURE, WORDS, {"file/1", "written/0"}),
        (DOMAIN + SPLITS, "", set()),
    ],
    ids=["own", "mixture", "splits"],
)
def test_a_source_trains_and_resumes_exactly(call: Call, tables: str, vocabulary: str, drawn: set[str]) -> None:
    text = RUN.format(vocabulary=vocabulary) + tables
    train(call, text, "complete")
    train(call, text, "halves", "--run.steps", "2")
    resumed = call("train", "--resume", "runs/halves", "--run.steps", "4")
    assert resumed.code == 0, resumed.err
    assert weights("complete") == weights("halves")
    assert shown("complete") == shown("halves")
    assert drawn <= shown("complete")
    if tables.endswith(SPLITS):
        assert {name.partition("/")[0] for name in shown("complete")} == {"train", "more"}
    sampled = call("sample", "complete", "--split", "train", "--n", "1")
    assert sampled.code == 0, sampled.err


def test_the_error_names_a_part_without_tasks(call: Call) -> None:
    options = ("--domain.options.symbols", "3", "--domain.options.max_length", "2")
    Path("empty.toml").write_text(RUN.format(vocabulary="") + DOMAIN + SPLITS, encoding="utf-8")
    rejected = call("train", "empty.toml", *options)
    assert rejected.code == 2
    assert "the part 'more' has no tasks" in rejected.err


def test_tasks_generated_by_a_function(call: Call) -> None:
    source = '[tasks.source]\nkind = "generated"\nfunction = "letters:make"\n'
    train(call, RUN.format(vocabulary=WORDS) + TASKS + source, "made", "--run.steps", "2")
    assert shown("made") <= {str(number) for number in range(8)}


def test_the_source_of_an_untrusted_recipe_is_not_imported(call: Call, tmp_path: Path) -> None:
    Path("letters.py").write_text(LETTERS + "from pathlib import Path\nPath('imported').touch()\n", encoding="utf-8")
    (tmp_path / "sent").mkdir()
    recipe = tmp_path / "sent" / "theirs.toml"
    recipe.write_text(RUN.format(vocabulary=WORDS) + OWN + '[verify]\nverifier = "letters:score"\n', encoding="utf-8")
    rejected = call("train", str(recipe))
    assert rejected.code == 2
    assert "tasks.source.kind = 'letters:Harder'" in rejected.err
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('kind = "mixtur"', "did you mean mixture?"),
        ('kind = "letters:score"', "must be a class with the methods of steelyard.data.Source"),
        ('kind = "letters:Harder"\noptions = { sizes = 1 }', "tasks.source.options as keyword arguments"),
        ('kind = "letters:Harsher"', "did you mean 'Harder'"),
    ],
)
def test_mistakes_are_explained(call: Call, source: str, message: str) -> None:
    Path("wrong.toml").write_text(RUN.format(vocabulary=WORDS) + TASKS + f"[tasks.source]\n{source}\n")
    rejected = call("train", "wrong.toml")
    assert rejected.code == 2
    assert "tasks.source.kind" in rejected.err
    assert message in rejected.err
