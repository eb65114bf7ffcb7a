"""Gauge theories: what they are, whether they are consistent, and what is left of them after symmetry breaking."""

from steelyard.domains.theories.anomalies import Anomaly, conditions, is_free
from steelyard.domains.theories.atlas import Atlas, atlas, distinct, kinship
from steelyard.domains.theories.breaking import broken_forces, electric_charges, unbroken
from steelyard.domains.theories.canonical import Canonical, canonical, chiral_content
from steelyard.domains.theories.invariance import flaws, invariants, term_structures
from steelyard.domains.theories.known import models, standard_model
from steelyard.domains.theories.masses import Spectrum, State, light_exotics, spectrum
from steelyard.domains.theories.theory import Field, Gauge, Leg, Special, Term, Theory, Vev

__all__ = [
    "Anomaly",
    "Atlas",
    "Canonical",
    "Field",
    "Gauge",
    "Leg",
    "Special",
    "Spectrum",
    "State",
    "Term",
    "Theory",
    "Vev",
    "atlas",
    "broken_forces",
    "canonical",
    "chiral_content",
    "conditions",
    "distinct",
    "electric_charges",
    "flaws",
    "invariants",
    "is_free",
    "kinship",
    "light_exotics",
    "models",
    "spectrum",
    "standard_model",
    "term_structures",
    "unbroken",
]
