"""What is installed, what each missing extra would give, which devices there are, and whether a model fits."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steelyard import config as configs
from steelyard.commands.machine import CORE, EXTRAS, Device, devices, installed, missing
from steelyard.commands.memory import ROOM, Size, needs, size_of
from steelyard.commands.screen import loading, positive, stdout
from steelyard.domains import domain_paths
from steelyard.errors import ConfigError
from steelyard.verification import describe_level


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PATH", help="hub id or folder: does it fit? (its weights are not read)")
    parser.add_argument("--rank", type=positive, default=64, metavar="R", help="rank of LoRA for that estimate (64)")


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"doctor takes no {overrides[0]}")
    console = stdout()
    _packages(console)
    with loading("torch"):
        there = devices()
        size = size_of(arguments.model) if arguments.model else None
    _devices(console, there)
    console.print("[bold]sandbox[/bold]   " + escape(describe_level()))
    console.print("[bold]domains[/bold]   " + ", ".join(sorted(domain_paths())))
    console.print("[bold]recipes[/bold]   " + ", ".join(configs.recipes()))
    if size is not None:
        _memory(console, arguments.model, size, there[0], arguments.rank)
    return 0


def _packages(console: Console) -> None:
    found = [f"python {platform.python_version()}"]
    found += [f"{package} {installed(package) or '(not installed)'}" for package in CORE]
    console.print("[bold]packages[/bold]  " + ", ".join(found))
    table = Table("extra", "", "gives", title="extras", title_justify="left", title_style="bold")
    for name, extra in EXTRAS.items():
        versions = ", ".join(f"{package} {installed(package)}" for package in extra.packages if installed(package))
        install = f"[yellow]pip install 'steelyard\\[{name}]'[/yellow]"
        table.add_row(name, install if missing(extra) else f"[green]{versions}[/green]", extra.gives)
    console.print(table)


def _devices(console: Console, there: Sequence[Device]) -> None:
    for number, device in enumerate(there):
        memory = "" if device.memory is None else f", {_size(device.memory)} free"
        chosen = "   (model.device = auto takes it)" if number == 0 else ""
        label = "[bold]devices[/bold]" if number == 0 else "       "
        console.print(f"{label}   {device.name}: {escape(device.about)}{memory}[dim]{chosen}[/dim]")


def _memory(console: Console, name: str, size: Size, device: Device, rank: int) -> None:
    console.print(f"\n[bold]{escape(name)}[/bold]: {size.parameters / 1e6:,.1f}M parameters")
    table = Table("trained as", "rollout", "update", f"on {device.name}")
    for need in needs(size, rank=rank):
        verdict = "?" if device.memory is None else need.fits(device.memory)
        colour = {"fits": "green", "tight": "yellow", "no": "red"}.get(verdict, "dim")
        table.add_row(need.way, _size(need.rollout), _size(need.update), f"[{colour}]{verdict}[/{colour}]")
    console.print(table)
    cache = 2 * size.cached
    console.print(
        f"Weights, reference and optimiser. Without KL there is no reference. Activations and the KV cache come on top "
        f"({_size(cache * 1000)} for 1000 tokens of one sample in bfloat16): 'fits' leaves {1 - ROOM:.0%} for them; "
        f"sampling.max_rows, optimiser.microbatch_tokens and model.gradient_checkpointing keep them small.",
        style="dim",
    )


def _size(amount: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"
