// malloc and free are built into the compiler.
// SPDX-License-Identifier: Apache-2.0
#pragma once
