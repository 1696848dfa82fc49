"""`python -m experiments` is `experiments.every`: a module of its own, so that its processes can find it."""

from experiments.every import main

if __name__ == "__main__":
    main()
