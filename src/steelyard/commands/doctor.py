"""Show devices, installed packages and missing extras, and estimate whether a model fits in memory."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steelyard import config as configs
from steelyard.commands.inputs.machine import CORE, EXTRAS, Device, devices, installed, missing, product_rates
from steelyard.commands.output.screen import amount, loading, positive, stdout
from steelyard.defaults import LORA_RANK
from steelyard.domains import domain_names
from steelyard.errors import ConfigError
from steelyard.memory.footprint import USABLE_SHARE, estimate_methods
from steelyard.memory.model_shape import ModelShape, find_shape
from steelyard.verification import describe_level


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PATH", help="estimate whether this model (hub id or folder) fits in memory")
    parser.add_argument(
        "--rank",
        type=positive,
        default=LORA_RANK,
        metavar="R",
        help="LoRA rank assumed in the estimate (default: %(default)s)",
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"doctor does not accept {overrides[0]}; remove it")
    console = stdout()
    _packages(console)
    with loading("torch"):
        there = devices()
        shape = find_shape(arguments.model) if arguments.model else None
        rates = product_rates()
    _devices(console, there)
    _rates(console, rates)
    console.print("[bold]sandbox[/bold]   " + escape(describe_level()))
    console.print("[bold]domains[/bold]   " + ", ".join(domain_names()))
    console.print("[bold]recipes[/bold]   " + ", ".join(configs.recipes()))
    if shape is not None:
        _memory(console, arguments.model, shape, there[0], arguments.rank)
    return 0


def _packages(console: Console) -> None:
    found = [f"python {platform.python_version()}"]
    found += [f"{package} {installed(package) or '(not installed)'}" for package in CORE]
    console.print("[bold]packages[/bold]  " + ", ".join(found))
    table = Table("extra", "status", "enables", title="extras", title_justify="left", title_style="bold")
    for name, extra in EXTRAS.items():
        versions = ", ".join(f"{package} {installed(package)}" for package in extra.packages if installed(package))
        install = f"[yellow]pip install 'steelyard\\[{name}]'[/yellow]"
        table.add_row(name, install if missing(extra) else f"[green]{versions}[/green]", extra.enables)
    console.print(table)


def _devices(console: Console, there: Sequence[Device]) -> None:
    for number, device in enumerate(there):
        memory = "" if device.memory is None else f", {amount(device.memory)} free"
        chosen = "   (selected by model.device = auto)" if number == 0 else ""
        label = "[bold]devices[/bold]" if number == 0 else "       "
        console.print(f"{label}   {device.name}: {escape(device.about)}{memory}[dim]{chosen}[/dim]")


def _rates(console: Console, rates: Mapping[str, float]) -> None:
    measured = ", ".join(f"{name} {rate / 1e9:.3g}" for name, rate in rates.items())
    console.print(f"          cpu: {measured} GFLOP/s (measured with a matrix product)")


def _memory(console: Console, name: str, shape: ModelShape, device: Device, rank: int) -> None:
    console.print(f"\n[bold]{escape(name)}[/bold]: {shape.parameters / 1e6:,.1f}M parameters")
    table = Table("trained as", "rollout", "update", f"on {device.name}")
    for need in estimate_methods(shape, rank=rank):
        verdict = "?" if device.memory is None else need.fits(device.memory)
        colour = {"fits": "green", "tight": "yellow", "no": "red"}.get(verdict, "dim")
        table.add_row(need.method, amount(need.rollout), amount(need.update), f"[{colour}]{verdict}[/{colour}]")
    console.print(table)
    cache = 2 * shape.cached
    console.print(
        f"Includes weights, optimiser and reference (used only with KL). Activations and the KV cache need more memory "
        f"({amount(cache * 1000)} per 1000 tokens of a sample in bfloat16): 'fits' leaves {1 - USABLE_SHARE:.0%} for "
        f"them. "
        f"Limit them with sampling.max_rows, optimiser.microbatch_tokens and model.gradient_checkpointing.",
        style="dim",
    )
