"""The command line `dsf-jax`: flags become library calls; only this room prints."""
