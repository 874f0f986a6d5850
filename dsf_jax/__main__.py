"""`python -m dsf_jax` is `dsf-jax`."""

from dsf_jax.cli.main import main

if __name__ == "__main__":
    main()
