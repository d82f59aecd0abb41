// Host only: kernels cannot use what it declares, so it declares nothing here.
// SPDX-License-Identifier: Apache-2.0
#pragma once
