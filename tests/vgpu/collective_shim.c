/* A warp, a block and a worker on the stack, for tests of functions that need them. */
// SPDX-License-Identifier: Apache-2.0
#include "collective.h"
#include <stdlib.h>

typedef struct Machine {
  VgLaunch launch;
  VgWorker worker;
  VgBlock block;
  VgWarp warp;
  VgSite sites[2];
} Machine;

static Machine *machine(char *shared, uint64_t bytes, uint32_t index) {
  Machine *m = calloc(1, sizeof *m);
  m->worker = (VgWorker){.launch = &m->launch, .sites = m->sites};
  m->launch = (VgLaunch){.grid = {1, 1, 1}, .block = {128, 1, 1}, .cluster = {1, 1, 1}, .counting = 1,
                         .threads_per_block = 128, .warps_per_block = 4};
  m->block = (VgBlock){.shared = shared, .shared_bytes = bytes, .warps = &m->warp,
                       .worker = &m->worker, .warp_count = 1, .live_threads = 32};
  m->warp = (VgWarp){.mask = VG_FULL, .live = VG_FULL, .block = &m->block, .worker = &m->worker,
                     .index = index};
  return m;
}

static int done(Machine *m, int result, uint32_t *fault, uint64_t *wavefronts) {
  *fault = m->worker.fault.kind;
  *wavefronts = m->sites[0].wavefronts;
  vg_async_reset(&m->warp);
  free(m);
  return result;
}

int shim_matrix(int store, char *shared, uint64_t bytes, uint32_t mask, uint32_t count,
                int transposed, int generic, uint32_t *registers, uint64_t *address,
                uint32_t *fault, uint64_t *wavefronts) {
  Machine *m = machine(shared, bytes, 0);
  uint32_t *r[4] = {registers, registers + 32, registers + 64, registers + 96};
  int result = store ? vg_stmatrix(&m->warp, 0, mask, count, transposed, generic, r, address)
                     : vg_ldmatrix(&m->warp, 0, mask, count, transposed, generic, r, address);
  return done(m, result, fault, wavefronts);
}

int shim_wgmma(char *shared, uint64_t bytes, uint32_t warp, const VgWgmma *shape, uint32_t *d,
               uint32_t *a, uint64_t a_descriptor, uint64_t b_descriptor, uint32_t scale_d,
               uint32_t *fault) {
  Machine *m = machine(shared, bytes, warp);
  uint32_t *sums[128], *left[4], scales[32];
  uint64_t descriptors[2][32], wavefronts;
  for (int i = 0; i < 128; i++) sums[i] = d + 32 * i;
  for (int i = 0; a && i < 4; i++) left[i] = a + 32 * i;
  for (int l = 0; l < 32; l++)
    descriptors[0][l] = a_descriptor, descriptors[1][l] = b_descriptor, scales[l] = scale_d;
  int result = vg_wgmma(&m->warp, 0, shape, VG_FULL, sums, a ? left : NULL,
                        a ? NULL : descriptors[0], descriptors[1], scales);
  return done(m, result, fault, &wavefronts);
}

/* load A, B and C, multiply, store D: one call, since the fragments' layout is not ours to know */
int shim_wmma(const VgMma *s, const VgWmma *parts, const uint64_t *addresses,
              const uint32_t *strides) {
  Machine *m = machine(NULL, 0, 0);
  static uint64_t storage[4][8][32];
  void *fragment[4][8];
  uint8_t sizes[4];
  int result = 0;
  for (int p = 0; p < 4; p++) {
    for (int r = 0; r < 8; r++) fragment[p][r] = storage[p][r];
    sizes[p] = parts[p].registers;
  }
  uint64_t address[32];
  uint32_t stride[32];
  for (int p = 1; p < 4; p++) {
    for (int l = 0; l < 32; l++) address[l] = addresses[p], stride[l] = strides[p];
    result |= vg_wmma_load(&m->warp, 0, &parts[p], VG_FULL, fragment[p], address, stride);
  }
  vg_wmma_mma(s, sizes, VG_FULL, fragment[0], fragment[1], fragment[2], fragment[3]);
  for (int l = 0; l < 32; l++) address[l] = addresses[0], stride[l] = strides[0];
  result |= vg_wmma_store(&m->warp, 0, &parts[0], VG_FULL, fragment[0], address, stride);
  uint32_t fault;
  uint64_t wavefronts;
  return done(m, result, &fault, &wavefronts) + 100 * (int)fault;
}

void shim_repeat_mma(int times, const VgMma *s, uint32_t mask, uint32_t *const *d,
                     uint32_t *const *a, uint32_t *const *b, uint32_t *const *c) {
  for (int i = 0; i < times; i++) vg_mma(s, mask, d, a, b, c);
}
