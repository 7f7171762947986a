"""`python -m harmix.cli`."""

from harmix.cli import main

if __name__ == "__main__":
    main()
