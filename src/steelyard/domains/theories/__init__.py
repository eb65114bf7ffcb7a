"""Gauge theories as data: check their consistency, break their symmetries and compute their mass spectra."""

from steelyard.domains.theories.comparison.canonical_form import CanonicalForm, canonical, chiral_content
from steelyard.domains.theories.comparison.catalogue import Catalogue, catalogue, count_distinct, relation_to_known
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.theory import Field, GaugeGroup, Leg, SpecialUnitary, Term, Theory, Vev
from steelyard.domains.theories.physics.anomalies import Anomaly, anomaly_conditions, is_anomaly_free
from steelyard.domains.theories.physics.breaking import broken_forces, electric_charges, unbroken
from steelyard.domains.theories.physics.invariance import flaws, invariants, term_structures
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, light_exotics, spectrum

__all__ = [
    "Anomaly",
    "CanonicalForm",
    "Catalogue",
    "Field",
    "GaugeGroup",
    "Leg",
    "SpecialUnitary",
    "Spectrum",
    "State",
    "Term",
    "Theory",
    "Vev",
    "anomaly_conditions",
    "broken_forces",
    "canonical",
    "catalogue",
    "chiral_content",
    "count_distinct",
    "electric_charges",
    "flaws",
    "invariants",
    "is_anomaly_free",
    "light_exotics",
    "models",
    "relation_to_known",
    "spectrum",
    "standard_model",
    "term_structures",
    "unbroken",
]
