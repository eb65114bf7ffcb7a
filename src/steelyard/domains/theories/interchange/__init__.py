"""Read and write model files of SARAH and PyR@TE."""
