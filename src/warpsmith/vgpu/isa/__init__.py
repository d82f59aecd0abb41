"""What each PTX instruction does, as rules that emit C."""
# SPDX-License-Identifier: Apache-2.0
