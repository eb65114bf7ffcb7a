"""Gauge invariance, anomalies, symmetry breaking, mass matrices and the mass spectrum."""
