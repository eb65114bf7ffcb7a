"""Gauge theories: what they are, whether they are consistent, and what is left of them after symmetry breaking."""

from steelyard.domains.theories.comparison.canonical_form import Canonical, canonical, chiral_content
from steelyard.domains.theories.comparison.catalogue import Atlas, atlas, distinct, kinship
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.theory import Field, Gauge, Leg, Special, Term, Theory, Vev
from steelyard.domains.theories.physics.anomalies import Anomaly, conditions, is_free
from steelyard.domains.theories.physics.breaking import broken_forces, electric_charges, unbroken
from steelyard.domains.theories.physics.invariance import flaws, invariants, term_structures
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, light_exotics, spectrum

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
