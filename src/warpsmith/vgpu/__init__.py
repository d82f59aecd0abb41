"""The virtual GPU: read PTX, translate it for this CPU, run it, and say what it did."""
# SPDX-License-Identifier: Apache-2.0
