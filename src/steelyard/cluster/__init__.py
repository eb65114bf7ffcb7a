"""Parts of a run on a Ray cluster, behind the same protocols as on one machine."""
