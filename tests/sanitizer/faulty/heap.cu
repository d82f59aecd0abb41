// Device malloc and free that go wrong.
// SPDX-License-Identifier: Apache-2.0

// run: 1 32 out=i32[32]
extern "C" __global__ void scratch_never_freed(int* out) {
  int* mine = (int*)malloc(64);  // expect: leak
  mine[0] = threadIdx.x;
  out[threadIdx.x] = mine[0];
  MEND(free(mine);)
}

// run: 1 32 out=i32[32] n=20
extern "C" __global__ void early_return_leaks(int* out, int n) {
  int* mine = (int*)malloc(64);  // expect: leak
  mine[0] = threadIdx.x;
  if (threadIdx.x >= n) {
    MEND(free(mine);)
    return;
  }
  out[threadIdx.x] = mine[0];
  free(mine);
}

// run: 1 32 out=i32[32]
extern "C" __global__ void freed_twice(int* out) {
  int* mine = (int*)malloc(64);
  mine[0] = threadIdx.x;
  out[threadIdx.x] = mine[0];
  free(mine);
  BAD(free(mine);)  // expect: double-free
}

// run: 1 64 out=i32[64]
extern "C" __global__ void freed_by_two_owners(int* out) {
  __shared__ int* block;
  if (threadIdx.x == 0) {
    block = (int*)malloc(256);
    block[5] = 1;
  }
  __syncthreads();
  out[threadIdx.x] = block[5];
  __syncthreads();
  if (threadIdx.x % 32 == 0 MEND(&& threadIdx.x == 0)) free(block);  // expect: double-free
}

// run: 1 32 out=i32[32]
extern "C" __global__ void used_after_free(int* out) {
  int* mine = (int*)malloc(64);
  mine[3] = threadIdx.x;
  BAD(free(mine);)
  out[threadIdx.x] = mine[3];  // expect: use-after-free
  MEND(free(mine);)
}

// run: 1 32 out=i32[32]
extern "C" __global__ void written_after_free(int* out) {
  int* mine = (int*)malloc(64);
  mine[3] = threadIdx.x;
  out[threadIdx.x] = mine[3];
  MEND(mine[3] = 0;)
  free(mine);
  BAD(mine[3] = 0;)  // expect: use-after-free
}

// run: 1 32 out=i32[32]
extern "C" __global__ void freed_from_the_middle(int* out) {
  int* mine = (int*)malloc(64);
  mine[0] = threadIdx.x;
  out[threadIdx.x] = mine[0];
  free(mine BAD(+4));  // expect: invalid-free
  BAD(free(mine);)
}

// run: 1 32 x=i32[32] out=i32[32]
extern "C" __global__ void frees_a_tensor(int* x, int* out) {
  out[threadIdx.x] = x[threadIdx.x];
  BAD(if (threadIdx.x == 0) free(x);)  // expect: invalid-free
}

// run: 1 32 out=i32[32]
extern "C" __global__ void heap_block_past_its_end(int* out) {
  int* mine = (int*)malloc(32);
  mine[8 MEND(-1)] = threadIdx.x;  // expect: out-of-bounds
  out[threadIdx.x] = threadIdx.x;
  free(mine);
}

struct Node {
  int value;
  Node* next;
};

// run: 1 1 out=i32[1]
extern "C" __global__ void list_walked_while_freed(int* out) {
  Node* head = nullptr;
  for (int i = 0; i < 4; ++i) {
    Node* node = (Node*)malloc(sizeof(Node));
    node->value = i;
    node->next = head;
    head = node;
  }
  int sum = 0;
  while (head) {
    sum += head->value;
    MEND(Node* next = head->next; free(head); head = next;)
    BAD(free(head); head = head->next;)  // expect: use-after-free
  }
  out[0] = sum;
}
