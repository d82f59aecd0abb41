"""`python -m warpsmith.cli`: the command line without an installed script."""
# SPDX-License-Identifier: Apache-2.0

from . import main

if __name__ == "__main__":
    main()
