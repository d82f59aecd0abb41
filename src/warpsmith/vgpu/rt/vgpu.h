/* The structures and functions shared by the runtime, the instruction handlers and the host.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How a kernel runs. A kernel is an array of VgOp, "threaded code": each op holds the address of a
 * handler, a small C function that does one PTX instruction for the 32 lanes of one warp and
 * returns the next op. Handlers of ALU and collective instructions are generated from the rules in
 * vgpu/isa (once per spelling and machine, not once per kernel); control and memory handlers live in
 * this runtime. A handler that returns NULL gives the processor back to the block scheduler.
 *
 * Registers are arrays of 32 lanes: predicates are uint32_t 0 or 1, .b8 and .b16 are uint16_t, .b32
 * are uint32_t, .b64 are uint64_t, all 64-byte aligned. An inactive lane (bit clear in the mask) must
 * never be written, and what it holds must never trap.
 *
 * Addresses. Global, const and generic addresses are host pointers. Shared and local addresses (in
 * ld.shared, ld.local, cp.async, ldmatrix, …) are offsets from the block's or the lane's base;
 * cvta adds the base.
 */
#ifndef VGPU_H
#define VGPU_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VG_LANES 32
#define VG_FULL 0xffffffffu
#define VG_BARRIERS 16

typedef struct VgOp VgOp;
typedef struct VgWarp VgWarp;
typedef struct VgBlock VgBlock;
typedef struct VgWorker VgWorker;
typedef struct VgLaunch VgLaunch;
typedef const VgOp *(*VgHandler)(const VgOp *o, VgWarp *w);

/* ------------------------------------------------------------------ memory access description */

typedef enum VgSpace { VG_GENERIC, VG_GLOBAL, VG_SHARED, VG_LOCAL, VG_CONST, VG_PARAM } VgSpace;

typedef enum VgAtomic {
  VG_ATOM_ADD, VG_ATOM_MIN, VG_ATOM_MAX, VG_ATOM_AND, VG_ATOM_OR, VG_ATOM_XOR,
  VG_ATOM_EXCH, VG_ATOM_CAS, VG_ATOM_INC, VG_ATOM_DEC
} VgAtomic;

typedef enum VgType {
  VG_U8, VG_S8, VG_U16, VG_S16, VG_U32, VG_S32, VG_U64, VG_S64,
  VG_F16, VG_BF16, VG_F16X2, VG_BF16X2, VG_F32, VG_F64, VG_B128
} VgType;

/* One memory instruction, filled by the translator: constant during a launch. */
typedef struct VgAccess {
  uint32_t site;        /* row in VgWorker.sites */
  uint8_t space;        /* VgSpace */
  uint8_t bytes;        /* of one element in memory: 1, 2, 4, 8, 16 */
  uint8_t count;        /* elements of the vector: 1, 2, 4, 8 */
  uint8_t reg_bytes;    /* lane width of the data registers: 2, 4, 8 (16: two uint64_t a lane) */
  uint8_t is_signed;    /* loads: sign-extend from `bytes` to `reg_bytes` (else zero-extend) */
  uint8_t atomic;       /* VgAtomic */
  uint8_t type;         /* VgType of an atomic or a reduction */
  uint8_t flags;        /* VG_STRONG, VG_ACQUIRE, VG_RELEASE of check.h */
  int64_t offset;       /* added to every lane address */
} VgAccess;

/* --------------------------------------------------------------------------- memory, counters */

/* Rows are sorted by `begin` and do not overlap. */
typedef struct VgAllocation {
  uint64_t begin, end;  /* host addresses, end exclusive */
  uint32_t readonly;    /* nonzero: a store or atomic is a fault */
  uint32_t id;          /* the host's number of the allocation */
  uint64_t *seen_read;  /* one bit per 32-byte sector touched, or NULL: vgpu/memory.py makes them */
  uint64_t *seen_written;
  uint64_t fresh;       /* nonzero: uninitialized until written, for launches with checks */
} VgAllocation;

/* What one memory or branch instruction did; summed over workers by the host. */
typedef struct VgSite {
  uint64_t requests;          /* warp-level accesses with at least one active lane */
  uint64_t threads;           /* active lanes, summed (guarded instructions of every kind too) */
  uint64_t sectors;           /* distinct 32-byte sectors per request, summed (global and local) */
  uint64_t sectors_ideal;     /* ceil(distinct bytes / 32) per request, summed */
  uint64_t wavefronts;        /* shared: bank passes, summed */
  uint64_t wavefronts_ideal;  /* shared: passes without any conflict */
  uint64_t bytes;             /* bytes asked for by active lanes */
  uint64_t divergent;         /* branches whose taken mask was neither empty nor the whole group */
  uint64_t conflicts;         /* atomics: lanes that share their address with an earlier lane */
} VgSite;

typedef struct VgBlockCount {
  uint64_t warps;       /* times a warp entered the basic block */
  uint64_t threads;     /* active lanes, summed over those times */
} VgBlockCount;

/* Order fixed: mirrors warpsmith.errors.FAULT_KINDS; 0 is "no fault". */
typedef enum VgFaultKind {
  VG_FAULT_NONE, VG_FAULT_OUT_OF_BOUNDS, VG_FAULT_MISALIGNED, VG_FAULT_NULL_POINTER, VG_FAULT_RACE,
  VG_FAULT_UNINITIALIZED, VG_FAULT_DIVERGENT_BARRIER, VG_FAULT_DEADLOCK, VG_FAULT_STEP_BUDGET,
  VG_FAULT_ASSERT, VG_FAULT_TRAP, VG_FAULT_STACK_OVERFLOW, VG_FAULT_ILLEGAL_ACCESS,
  VG_FAULT_READONLY_WRITE, VG_FAULT_USE_AFTER_FREE, VG_FAULT_ASYNC_COPY, VG_FAULT_MISSING_SYNCWARP,
  VG_FAULT_BARRIER_MISMATCH, VG_FAULT_LEAK, VG_FAULT_INVALID_FREE, VG_FAULT_DOUBLE_FREE
} VgFaultKind;

/* The first fault of a worker. Written by vg_fault(), read by the host. */
typedef struct VgFault {
  uint32_t kind;        /* VgFaultKind */
  uint32_t site;        /* instruction number */
  uint32_t space;       /* VgSpace of a memory fault */
  uint32_t is_store;    /* memory faults: 1 store or atomic, 0 load */
  uint32_t bytes;       /* memory faults: bytes of one lane's access */
  uint32_t lane;        /* the lowest bad lane */
  uint32_t warp;        /* within the block */
  uint32_t lanes;       /* mask of all bad lanes */
  uint32_t block[3];
  uint32_t thread[3];
  uint64_t address;     /* memory faults: what the lane asked for (shared and local: the offset) */
  uint64_t limit;       /* shared and local: the size of the window */
  char text[512];       /* assert: message; deadlock: each warp's place, "warp:site:state" lines */
} VgFault;

/* What the sanitizer looks for: bits of VgLaunch.checks, in the order of vgpu/checks.py. */
enum {
  VG_CHECK_UNINITIALIZED = 1, VG_CHECK_RACES = 2, VG_CHECK_GLOBAL_RACES = 4, VG_CHECK_ASYNC = 8,
  VG_CHECK_WARP_SYNC = 16, VG_CHECK_BARRIERS = 32, VG_CHECK_LEAKS = 64
};

typedef enum VgSeverity { VG_ERROR, VG_WARNING, VG_INFO } VgSeverity;
/* What a party of a race did: order of vgpu/faults.py. */
typedef enum VgDeed { VG_DID_NOTHING, VG_DID_READ, VG_DID_WRITE, VG_DID_ATOMIC, VG_DID_COPY, VG_DID_WAIT } VgDeed;

/* One thread's part in a finding. */
typedef struct VgParty {
  uint32_t site, deed, warp, lane;
  uint32_t block[3], thread[3];
} VgParty;

/* One distinct problem of a launch with checks: what was seen first, and how often. */
typedef struct VgFinding {
  uint32_t kind;        /* VgFaultKind */
  uint32_t severity;    /* VgSeverity */
  VgParty who, other;   /* other.deed VG_DID_NOTHING: there is none */
  uint32_t space, bytes;      /* VgSpace, bytes of one lane's access */
  uint32_t lanes;       /* mask of all bad lanes */
  uint32_t hint;        /* by kind: vgpu/faults.py reads it */
  uint64_t address, limit;    /* as in VgFault */
  uint64_t count;       /* lanes that did the same, summed */
} VgFinding;

/* ------------------------------------------------------------------------------------ the code */

struct VgOp {           /* 64 bytes */
  VgHandler run;
  union {
    const VgAccess *access;   /* memory instructions */
    const uint32_t *more;     /* operand offsets of instructions with more than 8 */
    uint64_t imm;             /* control instructions */
  };
  uint32_t guard;       /* offset of the guard predicate's lanes in w->regs, where flags say so */
  uint16_t flags;       /* VG_GUARDED, … */
  uint16_t kinds;       /* bit i: operand i lies in w->fixed, not in w->regs */
  uint32_t site;        /* instruction number: row of sites, of the host's line table */
  uint32_t aux;         /* block number, branch target, …, by handler */
  uint32_t a[8];        /* operands, destinations first: byte offsets in w->regs or w->fixed, or
                         * small immediates; the handler knows which */
};

enum {
  VG_GUARDED = 1,
  VG_NEGATED = 2,
  VG_ADDRESS_FIXED = 4,  /* memory: the address lanes (offset in aux) lie in w->fixed */
  VG_ADDRESS_32 = 8,     /* memory: the address lanes are uint32_t */
  VG_SPIN = 16,          /* branches: back edge of a loop that may wait for another thread */
  VG_ALIGNED = 32,       /* barriers: all threads of a warp must be at the same one */
  VG_COUNTED = 64        /* guarded instructions: count active lanes in sites[site].threads */
};

#define VG_SINK 0xffffffffu  /* offset of an operand that is not there */

/* The head of every register frame. */
typedef struct VgFrame {
  const VgOp *return_op;
  char *caller;               /* the caller's frame */
  const uint32_t *call;       /* the call's description, for its results */
  uint64_t bytes;             /* of this frame, head included */
  uint64_t local;             /* offset of this frame's part of local memory */
  uint64_t local_bytes;
  uint64_t reserved[2];
} VgFrame;

/* Special registers that are lane arrays (uint32_t) in w->fixed. */
typedef enum VgSpecial {
  VG_TID_X, VG_TID_Y, VG_TID_Z, VG_NTID_X, VG_NTID_Y, VG_NTID_Z,
  VG_CTAID_X, VG_CTAID_Y, VG_CTAID_Z, VG_NCTAID_X, VG_NCTAID_Y, VG_NCTAID_Z,
  VG_LANEID, VG_WARPID, VG_NWARPID, VG_SMID, VG_NSMID, VG_GRIDID,
  VG_LANEMASK_EQ, VG_LANEMASK_LE, VG_LANEMASK_LT, VG_LANEMASK_GE, VG_LANEMASK_GT,
  VG_CLUSTERID_X, VG_CLUSTERID_Y, VG_CLUSTERID_Z,
  VG_NCLUSTERID_X, VG_NCLUSTERID_Y, VG_NCLUSTERID_Z,
  VG_CLUSTER_CTAID_X, VG_CLUSTER_CTAID_Y, VG_CLUSTER_CTAID_Z,
  VG_CLUSTER_NCTAID_X, VG_CLUSTER_NCTAID_Y, VG_CLUSTER_NCTAID_Z,
  VG_CLUSTER_CTARANK, VG_CLUSTER_NCTARANK, VG_IS_EXPLICIT_CLUSTER,
  VG_TOTAL_SMEM_SIZE, VG_DYNAMIC_SMEM_SIZE, VG_AGGR_SMEM_SIZE,
  VG_ENVREG1, VG_ENVREG2,
  VG_SPECIALS
} VgSpecial;

/* ---------------------------------------------------------------------------- machine state */

typedef enum VgState { VG_READY, VG_AT_BARRIER, VG_AT_JOIN, VG_AT_MBARRIER } VgState;
typedef enum VgStatus { VG_RUNNING, VG_BLOCKED, VG_DONE } VgStatus;

/* Lanes of a warp that are not running now: where they continue and what they wait for. */
typedef struct VgGroup {
  const VgOp *op;
  char *regs;           /* register frame */
  uint32_t mask;
  uint32_t depth;       /* call depth */
  uint32_t state;       /* VgState */
  uint32_t barrier;     /* VG_AT_BARRIER: which */
  uint64_t age;         /* when it was parked */
} VgGroup;

struct VgWarp {
  char *regs;           /* the running group's register frame */
  char *fixed;          /* constants and special registers, lane arrays too */
  uint32_t mask;        /* lanes of the running group */
  uint32_t live;        /* lanes that have not exited */
  const VgOp *lowest;   /* lowest parked pc that must run before or join the running group */
  const VgOp *ops;      /* the kernel's first op */
  VgBlock *block;
  VgWorker *worker;
  char *local;          /* local memory of lane l is local + l * local_stride */
  uint64_t local_stride;/* bytes of local memory per lane (the window's size) */
  uint32_t index;       /* warp number within the block */
  uint32_t depth;       /* call depth of the running group */
  uint32_t groups;      /* parked groups */
  int32_t quantum;      /* back edges left before the running group is parked */
  uint32_t rotating;    /* the lowest-pc rule is off */
  uint32_t status;      /* VgStatus */
  uint32_t breath;      /* back edges left until the budgets are looked at */
  uint64_t cluster_wanted;    /* phase of the cluster's barrier that `wait` waits for */
  const VgOp *early;    /* a collective that runs though member lanes are elsewhere */
  char *stack, *stack_end;    /* all register frames */
  void *stack_whole, *local_whole;    /* what free() takes */
  uint64_t clock;       /* warp instructions executed */
  uint64_t ages;
  void *async;          /* pending cp.async copies; owned by memory.c, NULL when there are none */
  uint32_t bulk_groups[VG_LANES];   /* bulk groups that each lane has closed */
  _Alignas(64) uint64_t address[VG_LANES];   /* scratch lane addresses of the running handler */
  VgGroup group[VG_LANES];
};

typedef struct VgBarrier {
  uint32_t arrived;     /* lanes (bar.arrive included) */
  uint32_t expected;    /* 0: every live thread of the block */
  uint32_t accumulator; /* bar.red: and, or, popc of the arriving lanes */
  uint32_t result;      /* bar.red: the value of the phase that ended */
} VgBarrier;

struct VgBlock {
  char *shared;         /* 1024-byte aligned */
  uint64_t shared_bytes;/* static + dynamic */
  VgWarp *warps;
  VgWorker *worker;
  uint32_t warp_count;
  uint32_t live_threads;
  uint32_t index[3];    /* %ctaid */
  uint32_t number;      /* linear index in the grid */
  uint32_t resident;    /* slot in the worker */
  uint32_t done;
  VgBarrier barrier[VG_BARRIERS];
  void *tensor;         /* tensor memory (tcgen05.c), NULL until it is allocated from */
};

/* What all workers share; constant during a launch, filled by the host. */
struct VgLaunch {
  const VgOp *ops;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t threads_per_block, warps_per_block;
  uint32_t block_count; /* basic blocks of the code */
  uint32_t site_count;
  uint64_t frame_bytes;       /* register frame of the kernel itself */
  uint64_t stack_bytes;       /* register frames of all calls, per warp */
  uint64_t fixed_bytes;
  uint64_t local_bytes;       /* per lane */
  uint64_t frame_local_bytes; /* of the kernel's own frame */
  uint64_t dynamic_shared_bytes;
  uint64_t shared_bytes;      /* static + dynamic */
  const char *params;         /* kernel parameters, packed */
  uint64_t param_bytes;
  const void *fixed_image;    /* initial content of w->fixed for constants */
  const VgAllocation *table;  /* NULL: global accesses are not checked */
  uint32_t table_count;
  uint32_t counting;          /* 0: VgWorker.sites need not be touched by memory functions */
  uint32_t parallel;          /* more than one worker: atomics must be real atomics */
  uint32_t cooperative;
  uint32_t schedule;          /* 0 default, 1 reverse, 2 random */
  uint32_t resident_blocks;   /* per worker */
  uint64_t seed;
  uint64_t max_instructions;  /* thread instructions, per worker */
  double max_seconds;
  char *grid_workspace; /* of cooperative groups: its size, then its barrier */
  char *heap;           /* of malloc in kernels; NULL: none */
  uint64_t heap_bytes;
  uint64_t *heap_used;
  struct VgCache *cache;      /* the cache model of rt/cache.h, or NULL */
  uint32_t special[VG_SPECIALS];/* offsets in w->fixed of special registers; VG_SINK: unused */
  uint32_t checks;      /* VG_CHECK_… of a launch with the sanitizer; 0: none */
  uint32_t max_findings;/* distinct errors and warnings, after which the launch ends */
};

/* One host thread's part of a launch. */
struct VgWorker {
  const VgLaunch *launch;
  VgSite *sites;        /* one row per instruction, never NULL */
  VgBlockCount *blocks; /* one row per basic block */
  VgBlock *resident;
  uint64_t first_block, last_block;   /* linear block numbers, last exclusive */
  uint64_t instructions;/* thread instructions so far */
  VgAllocation last[2]; /* last hits in the table: a load's and a store's */
  void *memory;         /* memory.c's own state, NULL until it makes one; see vg_memory_close */
  char *cluster_shared; /* the host's memory for the shared windows of a cluster, or NULL */
  uint64_t cluster_stride;
  void *patterns;       /* pattern.c's memory of each site's last access; freed by vg_worker_close */
  char *printed;        /* vprintf output, malloc'ed */
  uint64_t printed_bytes, printed_room;
  uint64_t clock;       /* %clock64: warp instructions so far, of all warps */
  uint64_t random;
  uint64_t early_collectives; /* *.sync executed though member lanes were elsewhere */
  uint64_t cluster_arrived, cluster_phase;    /* barrier.cluster of the resident set */
  uint64_t next_block;        /* the first that has not started */
  volatile int stop;    /* nonzero: a fault was recorded, every handler returns NULL soon */
  double started;
  VgFault fault;
  void *bulk;           /* bulk.c's queue of transfers that have not landed */
  void *check;          /* the sanitizer's state; NULL: nothing but the cheap checks */
  VgFinding *findings;  /* of the host: 2 * launch->max_findings rows, half of them for information */
  uint32_t finding_count, unchecked;  /* unchecked: allocations too large for shadow memory */
};

/* ------------------------------------------------------------- for handlers: the running lanes */

/* Lanes do not depend on each other: the compiler may vectorize without asking for overlaps. */
#ifdef __clang__
#define VG_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < VG_LANES; l++)
#else
#define VG_LANE_LOOP _Pragma("GCC ivdep") for (int l = 0; l < VG_LANES; l++)
#endif

/* Bit l is set where p[l] is nonzero. */
uint32_t vg_bits(const uint32_t *p);

static inline uint32_t vg_mask(const VgOp *o, const VgWarp *w) {
  if (!(o->flags & VG_GUARDED)) return w->mask;
  uint32_t bits = vg_bits((const uint32_t *)(w->regs + o->guard));
  return w->mask & ((o->flags & VG_NEGATED) ? ~bits : bits);
}

/* vg_mask, for handlers of instructions that nobody else counts. */
static inline uint32_t vg_active(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  if (o->flags & VG_COUNTED) w->worker->sites[o->site].threads += (uint64_t)__builtin_popcount(mask);
  return mask;
}

/* Record the worker's first fault and stop it. `lanes` are the bad lanes; `site` the instruction;
 * the fields about memory may be set by the caller afterwards in w->worker->fault if this returns
 * nonzero (it was the first). */
int vg_fault(VgWarp *w, uint32_t kind, uint32_t site, uint32_t lanes);

/* --------------------------------------------------------------- memory.c (checked and counted)
 *
 * All functions: lanes outside `mask` are neither read nor written; mask is never 0. `address` holds
 * 32 lane addresses of a->space (shared and local: offsets; others: host pointers), to which
 * a->offset is added. Every access is checked (null, bounds, alignment to the whole access,
 * bytes * count, readonly); generic addresses may also lie in the block's shared window or the
 * lane's local window. VG_CONST and VG_PARAM addresses are host pointers of the host's own memory:
 * VG_PARAM is not checked. Counters of row a->site in w->worker->sites are kept when
 * w->worker->launch->counting. They return 0, or nonzero after vg_fault(): then nothing was written
 * by this call for the faulting lanes.
 */

/* destination[i] points at the 32 lanes (a->reg_bytes each) of element i, NULL for a sink `_`. */
int vg_load(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
            void *const *destination);
int vg_store(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
             const void *const *source);
/* atom and red of a->atomic and a->type; lanes act in lane order. old: NULL for red. operand2: the
 * new value of cas. Vectors (a->count > 1: red/atom.global.add.v2/v4) pass arrays of pointers. */
int vg_atomic(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
              void *const *old, const void *const *operand, const void *const *operand2);
/* cp.async of a->bytes * a->count bytes (4, 8, 16) per lane from global to shared. source_bytes: lanes of the
 * optional src-size (rest is zero-filled), NULL for all; ignore_source: lanes (0/1) of the optional
 * ignore-src predicate, NULL for none. The copy becomes visible at the wait, so that a missing wait
 * shows. The access is counted twice: row a->site for global, row a->site's wavefronts for shared. */
int vg_async_copy(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *shared,
                  const uint64_t *global, const uint32_t *source_bytes,
                  const uint32_t *ignore_source);
void vg_async_commit(VgWarp *w, uint32_t mask);
/* Complete all but the newest `pending` committed groups of the lanes; pending = UINT32_MAX never
 * occurs; wait_all passes everything, committed or not. */
void vg_async_wait_group(VgWarp *w, uint32_t mask, uint32_t pending);
void vg_async_wait_all(VgWarp *w, uint32_t mask);
/* Drop what is pending (end of a block) and free w->async. */
void vg_async_reset(VgWarp *w);
/* Free worker->memory (end of a launch). */
void vg_memory_close(VgWorker *worker);
/* bulk.c: land what completes on a barrier (before it is tested), and what a block has left (at its
 * end); free the worker's queue. */
void vg_bulk_land(VgWorker *worker, uint64_t barrier);
void vg_bulk_end(VgBlock *block);
void vg_bulk_close(VgWorker *worker);
/* Check `bytes` of global memory at `first`, of any length and alignment. Nonzero: a fault. */
int vg_admit_span(VgWarp *w, uint32_t site, uint32_t lanes, uint64_t first, uint64_t bytes, int is_store);
/* Elements in a row, one reduction each; checked and counted by the caller. */
void vg_atomic_span(VgWarp *w, const VgAccess *a, uint64_t at, const char *values, uint64_t count);
/* For collectives (ldmatrix, stmatrix, wgmma): check `bytes` at each shared offset of `lanes`, and
 * count `wavefronts` for rows of `bytes` bytes read in passes of 8 lanes. Nonzero: a fault. */
int vg_shared_rows(VgWarp *w, uint32_t site, uint32_t lanes, const uint64_t *offset, uint32_t bytes,
                   int is_store);

/* Lane addresses + offset, from 32- or 64-bit lanes, into w->address. */
const uint64_t *vg_lane_addresses(VgWarp *w, const char *lanes, uint32_t bits, int64_t offset);

/* ------------------------------------------------------------------- sched.c, for handlers */

/* A `.sync` instruction whose member lanes are not all here: NULL or the op to run instead. Returns
 * `o` itself when the members are here (after lanes that waited at `o` have joined: w->mask grows). */
const VgOp *vg_join(const VgOp *o, VgWarp *w, uint32_t members);
/* Leave the running group where it is, waiting for nothing, and let other groups and warps run. */
const VgOp *vg_park(const VgOp *o, VgWarp *w);
/* Park the running group in a state, then choose another of this warp; NULL when there is none. */
const VgOp *vg_wait(const VgOp *o, VgWarp *w, uint32_t state, uint32_t barrier);
/* The running group goes to `target`, another frame perhaps: recompute w->lowest. */
void vg_order(VgWarp *w);
/* Choose the group to run; NULL when all wait. */
const VgOp *vg_pick(VgWarp *w);
/* Stop when the step or time budget is used up; nonzero then. */
int vg_budget(VgWarp *w, const VgOp *o);
/* Release the block's barriers that are complete. */
void vg_release(VgBlock *block);
/* Host address of a shared::cluster offset: block rank + 1 in bits 24 and up, 0 for this block. */
uint64_t vg_cluster_address(const VgWarp *w, uint64_t value);
/* One arrival at the mbarrier at a host address, or bytes that came. Nonzero: a fault. */
int vg_mbarrier_arrive(VgWarp *w, uint32_t site, uint32_t lane, uint64_t address);
int vg_mbarrier_complete(VgWarp *w, uint32_t site, uint32_t lane, uint64_t address, uint64_t bytes);
/* Take the next set of blocks, which then never starts: the index of its first, or 0. */
int vg_take_cluster(VgWorker *worker, uint32_t index[3]);
/* A block begins or ends: its tensor memory is empty, and must be again. */
void vg_tmem_start(VgBlock *block);
void vg_tmem_end(VgBlock *block);
/* Somebody waited for a phase of an mbarrier: what was committed to it has ended. */
void vg_tmem_waited(const VgWarp *w, uint64_t barrier);
/* The block of a rank in w's cluster; NULL: there is none. */
const VgBlock *vg_cluster_block(const VgWarp *w, uint64_t rank);
/* mbarrier.c: complete transaction bytes of the barrier at p; let lanes that wait look again. */
void vg_barrier_complete(VgWarp *w, char *p, uint64_t bytes);
void vg_barrier_wake(VgWarp *running);
/* Lanes have exited: the cluster's barrier may be complete. */
void vg_cluster_exit(VgWorker *worker);
void vg_print(VgWorker *worker, const char *text, uint64_t bytes);

/* The sanitizer: these lanes executed a `.sync` instruction together. Only where worker->check is set. */
void vg_check_together(VgWarp *w, uint32_t lanes);
/* wgmma.commit_group and wait_group. */
void vg_check_product_commit(VgWarp *w);
void vg_check_product_wait(VgWarp *w, uint32_t pending);

/* ------------------------------------------------------------------------ sched.c, for the host */

/* Make the resident blocks and warps of a worker; 0, or nonzero when memory is short. */
int vg_worker_open(VgWorker *worker);
/* Run blocks first_block … last_block - 1. Returns 0, or the kind of the fault. */
int vg_worker_run(VgWorker *worker);
void vg_worker_close(VgWorker *worker);
/* sizeof of the structures in the order op, access, allocation, site, block count, fault, launch,
 * worker, finding: the host checks its own layout against it. */
void vg_sizes(uint64_t sizes[9]);

#endif
