"""A custom domain outside the package: the tutorial's domain, passed as an object, by import path and by name."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard import domains
from steelyard.domains import registry

from .conftest import Call

ROOT = Path(__file__).parents[2]
TUTORIAL, GUIDE = ROOT / "docs/domain-tutorial.md", ROOT / "CONTRIBUTING.md"
COUNTED = """
from walks import STEPS, Walks


class Counted(Walks):
    built = 0

    def __init__(self):
        type(self).built += 1

    def examples(self, *, seed):
        return [(self.task("train", index), "right down") for index in range(4)]
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def walks(folder: Path) -> Any:
    """Write the tutorial's files, shorten the run, and return its module."""
    Path("walks.py").write_text(blocks(TUTORIAL, "python")[0], encoding="utf-8")
    recipe = blocks(TUTORIAL, "toml")[0].replace("steps = 40", "steps = 2").replace("every = 20", "every = 2")
    quick = '[verify]\npool = "inline"\n\n[tracking]\nsamples_every = 1\nconsole = false\n'
    Path("walks.toml").write_text(f"{recipe}\n{quick}", encoding="utf-8")
    sys.path.insert(0, str(folder))
    return import_module("walks")


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    registry._registered.clear()


def texts_of(picture: str | Path) -> list[str]:
    return [str(one.text) for one in ET.parse(picture).getroot() if one.tag.endswith("text")]


def weights(run: str) -> bytes:
    newest = max(Path("runs", run, "checkpoints").glob("step-*"))
    return (newest / "model/model.safetensors").read_bytes()


def test_the_tutorial_works(call: Call, walks: Any) -> None:
    assert len(blocks(TUTORIAL, "python")[0].splitlines()) <= 60
    (commands,) = blocks(TUTORIAL, "sh")
    outputs: dict[str, str] = {}
    for words in (shlex.split(line, comments=True) for line in commands.splitlines()):
        if words[0] == "echo":
            Path(words[-1]).write_text(words[1] + "\n", encoding="utf-8")
            continue
        done = call(*words[1:])
        assert done.code == 0, f"{words}: {done.err}"
        outputs[words[1]] = done.out
    assert "success: reward 1" in outputs["verify"], "two to the right and one down is the target"
    assert "distinct texts among 32" in outputs["report"]
    assert ET.parse("mine.svg").getroot().findall("{*}polyline"), "its own picture"
    assert texts_of("runs/walks/artifacts/samples-00000002.svg")[0].startswith("best · to ")
    (sheet,) = Path("runs/walks/renders").glob("*/*/sheet.svg")
    assert len(ET.parse(sheet).getroot().findall("{*}polyline")) == 6

    exec(blocks(TUTORIAL, "python")[1], {})
    assert steelyard.open_run("runs/from-python", domain=walks.Walks()).step == 2
    splits = [{walks.Walks().task(name, n).id for n in range(walks.Walks().size(name))} for name in walks.SPLITS]
    assert not any(one & other for one, other in itertools.combinations(splits, 2))


def test_the_domain_in_the_contributing_guide_trains(walks: Any) -> None:
    (code,) = blocks(GUIDE, "python")
    Path("guide.py").write_text(code, encoding="utf-8")
    domain = import_module("guide").Doubling
    assert domain.__abstractmethods__ == frozenset()
    required = {name for name in vars(domain) if not name.startswith("_")}
    assert required == set(domains.Domain.__abstractmethods__)
    model = {"scratch": {"layers": 1, "width": 32, "heads": 2, "vocabulary": ["double", *map(str, range(10))]}}
    recipe = {"run": {"steps": 2}, "verify": {"pool": "inline"}, "tracking": {"console": False}}
    run = steelyard.train(model, domain=domain, sampling={"max_new_tokens": 2, "tasks_per_step": 2}, recipe=recipe)
    assert run.step == 2
    assert 'name = "guide:Doubling"' in (run.folder / "config.toml").read_text(encoding="utf-8")
    (group, *_) = run.sample(n=2)
    assert domain().render([domains.Artifact(group.samples[0].text, "a")], "svg").startswith(b"<svg")


def test_a_run_with_a_domain_object_needs_it_again_later(call: Call, walks: Any) -> None:
    run = steelyard.train(domain=walks.Walks(), recipe="walks.toml")
    assert "samples-00000002.svg" in {path.name for path in (run.folder / "artifacts").iterdir()}
    assert run.evaluate(tasks=2).reward.mean > 0

    for missing in (lambda run: run.evaluate(), lambda run: run.sample(), lambda run: run.resume(3)):
        with pytest.raises(steelyard.SteelyardError, match=r"a domain that the run folder cannot store: .*domain=…"):
            missing(steelyard.open_run("runs/walks"))
    for words in (("eval", "walks"), ("sample", "walks"), ("train", "--resume", "runs/walks"), ("render", "walks")):
        rejected = call(*words)
        assert rejected.code == 2, words
        assert "--domain.name" in rejected.err
        assert "domain=…" in rejected.err
    rejected = call("export", "walks", "--out", "model")
    assert rejected.code == 2
    assert "domain.name = 'module:Class'" in rejected.err
    assert call("export", "walks", "--out", "model", "--domain.name", "walks:Walks").code == 0

    assert steelyard.open_run("runs/walks", domain=walks.Walks()).resume(4).step == 4
    assert steelyard.train(domain=walks.Walks(), recipe="walks.toml", run={"steps": 4, "name": "complete"}).step == 4
    assert weights("walks") == weights("complete"), "resumed bit for bit"
    named = call("eval", "runs/walks", "--domain.name", "walks:Walks", "--tasks", "1")
    assert named.code == 0, named.err
    with pytest.raises(steelyard.SteelyardError, match=r"steelyard\.domains\.Domain"):
        steelyard.train(domain=walks.score, recipe="walks.toml")


def test_a_run_builds_its_domain_once(walks: Any, call: Call) -> None:
    Path("counted.py").write_text(COUNTED, encoding="utf-8")
    own = ("--domain.name", "counted:Counted", "--run.name", "once")
    trained = call("train", "walks.toml", *own, "--warmstart.examples", "8", "--warmstart.batch", "4")
    assert trained.code == 0, trained.err
    counted = import_module("counted").Counted
    assert counted.built == 1
    for words in (("eval", "once", "--tasks", "1"), ("sample", "once"), ("render", "once", "--n", "1")):
        counted.built = 0
        assert call(*words).code == 0, words
        assert counted.built == 1, words
    counted.built = 0
    steelyard.open_run("runs/once").resume(3).sample()
    assert counted.built == 1


def test_the_domain_of_an_untrusted_run_is_not_imported(walks: Any, call: Call, tmp_path: Path) -> None:
    assert call("train", "walks.toml").code == 0
    Path("theirs.py").write_text("from pathlib import Path\nPath('imported').touch()\nfrom walks import Walks\n")
    shutil.copytree("runs/walks", "theirs")
    config = Path("theirs/config.toml")
    config.write_text(config.read_text(encoding="utf-8").replace('"walks:Walks"', '"theirs:Walks"'), encoding="utf-8")
    for words in (("eval", "theirs"), ("render", "theirs"), ("train", "--resume", "theirs"), ("verify", "theirs", "x")):
        rejected = call(*words)
        assert rejected.code == 2, words
        assert "domain.name = 'theirs:Walks'" in rejected.err
    assert not Path("imported").exists()
    allowed = call("eval", "theirs", "--tasks", "1", "--trust")
    assert allowed.code == 0, allowed.err
    assert Path("imported").exists()


def test_a_domain_by_a_registered_name(walks: Any, registered: None) -> None:
    domains.register("walking", walks.Walks)
    run = steelyard.train(domain="walking", recipe="walks.toml")
    assert run.config.domain is not None
    assert run.config.domain.name == "walking"
    assert "walking" in domains.domain_names()
    with pytest.raises(steelyard.SteelyardError, match="built in"):
        domains.register("bricks", walks.Walks)
