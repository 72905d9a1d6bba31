"""`python -m seamark.devstack`."""

from seamark.devstack.command import main

if __name__ == "__main__":
    raise SystemExit(main())
