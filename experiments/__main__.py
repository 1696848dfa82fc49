"""`python -m experiments` runs `experiments.every`, which is a separate module so that its processes can import it."""

from experiments.every import main

if __name__ == "__main__":
    main()
