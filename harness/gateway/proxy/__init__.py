"""The forward proxy: TLS connections of agents to the hosts that their run is allowed, and to nothing else."""
