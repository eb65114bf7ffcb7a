"""Verification in processes of its own: a verifier may crash, hang or eat memory, and the run goes on.

For each worker there is a *keeper*, a small process that starts the worker, sees how it ended, and ends whatever it
left behind. The pool talks to the worker about items and to the keeper about the worker::

    pool (in the run) ── control ──> keeper ── fork ──> worker ──> what the verifier starts
                      ── items, verdicts ─────────────>
"""

from steelyard.verification.processes.limits import Limits, Recycling
from steelyard.verification.processes.pool import ProcessPool

__all__ = ["Limits", "ProcessPool", "Recycling"]
