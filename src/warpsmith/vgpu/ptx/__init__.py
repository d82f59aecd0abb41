"""Read PTX: text to tokens to instructions with operands, scopes resolved, lines kept."""
# SPDX-License-Identifier: Apache-2.0
