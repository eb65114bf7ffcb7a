"""Read and write model files for SARAH and PyR@TE."""
