"""Verification in separate processes: a verifier may crash, hang or exhaust memory without ending the run.

Each worker has a *fork server*, a small process that forks the worker, reports how it ended and kills the processes it
left behind. The pool exchanges items and verdicts with the worker, and controls the worker through the fork server::

    pool (in the run) ── control ──> fork server ── fork ──> worker ──> processes of the verifier
                      ── items, verdicts ──────────────────>
"""

from steelyard.verification.processes.limits import Recycling, WorkerLimits
from steelyard.verification.processes.pool import ProcessPool

__all__ = ["ProcessPool", "Recycling", "WorkerLimits"]
