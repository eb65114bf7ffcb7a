"""The Kubernetes manifest has a valid structure, consistent parts and a valid command."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard import config as configs
from steelyard.cli import split_overrides

jsonschema = pytest.importorskip("jsonschema")

FILE = Path(__file__).parents[3] / "deploy" / "rayjob.yaml"
SCHEMA = json.loads((Path(__file__).parent / "rayjob.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def job() -> Any:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def pods(job: Any) -> Iterator[Any]:
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        yield group["template"]["spec"]


def test_it_has_the_structure_of_a_rayjob(job: Any) -> None:
    jsonschema.validate(job, SCHEMA)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("spec", "rayClusterSpec", "authOptions", "mode"), "disabled"),
        (("spec", "rayClusterSpec", "workerGroup"), []),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "replicas"), "1"),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers", 0, "name"), "Ray_Head"),
        (("metadata", "name"), "steel yard"),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "image"), "untagged"),
    ],
)
def test_the_schema_detects_mistakes(job: Any, where: tuple[Any, ...], value: Any) -> None:
    wrong = copy.deepcopy(job)
    place = wrong
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


def test_volumes_exist_and_all_pods_use_one_image(job: Any) -> None:
    for pod in pods(job):
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes
    assert len({container["image"] for pod in pods(job) for container in pod["containers"]}) == 1


def test_requests_equal_limits_for_memory_and_accelerators(job: Any) -> None:
    """Kubernetes rejects accelerator limits that differ from requests, and kills pods above their requested memory."""
    for pod in pods(job):
        for container in pod["containers"]:
            requests, limits = container["resources"]["requests"], container["resources"]["limits"]
            assert {name: requests[name] for name in limits} == limits


def test_groups_that_may_grow_are_within_their_bounds(job: Any) -> None:
    cluster = job["spec"]["rayClusterSpec"]
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert cluster["enableInTreeAutoscaling"]


def test_ray_requires_tokens_and_has_the_tested_version(job: Any) -> None:
    ray = pytest.importorskip("ray")
    assert job["spec"]["rayClusterSpec"]["rayVersion"].rpartition(".")[0] == ray.__version__.rpartition(".")[0]
    assert tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 52)


def test_its_commands_parse(job: Any) -> None:
    program = shlex.split(job["spec"]["entrypoint"])
    assert program[:2] == ["bash", "-c"]
    calls = [shlex.split(call) for call in re.findall(r"steelyard train ([^;]+);", program[2])]
    assert len(calls) == 2
    for words in calls:
        plain, overrides = split_overrides(words)
        config = configs.load("text", overrides)
        assert config.cluster.address == "auto"
        assert plain in (["text"], ["--resume", f"runs/{config.run.name}"])
