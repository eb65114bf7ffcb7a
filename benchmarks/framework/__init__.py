"""What every benchmark uses: the catalogue, results, the report, processes and training runs."""
