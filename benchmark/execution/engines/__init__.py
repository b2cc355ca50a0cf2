"""What runs jobs: processes of this machine, or slots on the nodes of a Ray cluster."""
