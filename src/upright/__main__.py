"""`python -m upright` is `upright`."""

from upright.cli.main import main

if __name__ == "__main__":
    main()
