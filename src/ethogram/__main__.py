"""`python -m ethogram`: the same as `ethogram`."""

from ethogram.cli.main import main

if __name__ == "__main__":
    main()
