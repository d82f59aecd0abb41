/* A model of L1 and L2 that is fed with the accesses of a launch: estimates, nothing exact.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The virtual GPU runs one block after another; a GPU runs as many as fit at once. So accesses are
 * recorded for one wave of resident blocks (as many as the target's SMs hold) and then replayed in
 * turns, one request of every warp of the wave at a time: block b of the wave sits on SM b mod SMs.
 */
#ifndef VGPU_CACHE_H
#define VGPU_CACHE_H

#include "vgpu.h"

typedef enum VgTraffic { VG_TRAFFIC_LOAD, VG_TRAFFIC_STORE, VG_TRAFFIC_ATOMIC } VgTraffic;

enum {                       /* of an instruction; made by vgpu/cache.py */
  VG_HINT_PAST_L1 = 1,       /* asks L1 in vain: .cg, .cv, volatile, relaxed */
  VG_HINT_NO_ALLOCATE = 2,   /* may hit in L1, leaves nothing there */
  VG_HINT_EVICT_FIRST = 4,   /* the next to go: .cs, .lu, evict_first */
  VG_HINT_NO_L1 = 8,         /* never meets L1: cp.async.cg, bulk copies */
  VG_HINT_NONE = 16          /* not this model's memory: constants */
};

/* The model: numbers of the target from the host, results to the host. */
typedef struct VgCache {
  uint64_t l2_bytes;
  uint64_t trace_entries;    /* recorded at most before they are replayed */
  const uint8_t *hints;      /* of each instruction */
  uint32_t sms, blocks_per_sm, l1_bytes;
  uint32_t sample_shift;     /* 2^-shift of all lines are followed, in caches that much smaller */
  uint32_t fetch_sectors;    /* what L2 asks of DRAM at once: 1, 2 or 4 */
  uint32_t cluster_blocks;   /* never parted by the end of a wave */
  uint64_t l1_sectors, l1_hits, l2_reads, l2_read_hits, l2_writes, l2_write_hits;
  uint64_t dram_reads, dram_writes, dirty;   /* sectors */
  uint64_t early;            /* replays of less than a wave, because the trace was full */
  uint64_t failed;           /* no memory: the results are void */
  void *state;
} VgCache;

/* Record sectors: the ones that the addresses of `lanes` lie in, or those of a span. */
void vg_cache_lanes(VgWarp *w, uint32_t site, const uint64_t *at, uint32_t lanes, VgTraffic kind);
void vg_cache_span(VgWarp *w, uint32_t site, uint64_t first, uint64_t bytes, VgTraffic kind);
/* Where word 0 of lane 0 of this warp's local memory lies, in addresses that nothing else has. */
uint64_t vg_cache_local(const VgWarp *w);
/* Replay what is left, fill in the results, free the state. */
void vg_cache_close(VgCache *cache);
uint64_t vg_cache_size(void);

#endif
