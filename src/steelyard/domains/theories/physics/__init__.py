"""Gauge invariance, anomalies, symmetry breaking, mass matrices and mass spectra."""
