"""`python -m radrm`: the same as `radrm`."""

from radrm.cli.main import main

if __name__ == "__main__":
    main()
