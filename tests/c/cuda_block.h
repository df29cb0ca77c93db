/* tests/c/cuda_block.h -- runs a CUDA kernel of frit on the processor, block after block: each
 * thread is a context of its own that goes on until it waits for others.  tests/test_text.py puts
 * this before the text of a kernel, so its sums are held against NumPy's without a device. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { THREADS = 256, STACK = 64 << 10 };
struct dim { unsigned x, y, z; };

static struct dim blockIdx_, gridDim_ = {1, 1, 1}, blockDim_ = {THREADS, 1, 1};

static struct thread {
    struct dim index;
    ucontext_t at;
    unsigned   waits;       /* 0: not; 1: for the block; else for these lanes of its warp */
    unsigned   lanes;
    bool       ended;
    uint64_t   slot;        /* what it offers in a shuffle */
} threads[THREADS], *self;
static ucontext_t scheduler;

static void
wait(unsigned kind, unsigned lanes)
{
    self->waits = kind;
    self->lanes = lanes;
    swapcontext(&self->at, &scheduler);
}

/* Lets those go on who wait for each other, and all are there. */
static void
release(int i)
{
    const struct thread *t = &threads[i];
    const int            first = t->waits == 1 ? 0 : i / 32 * 32, n = t->waits == 1 ? THREADS : 32;

    for (int k = first; k < first + n; k++)
        if ((t->waits == 1 || t->lanes >> (k - first) & 1) && !threads[k].ended &&
            (threads[k].waits != t->waits || threads[k].lanes != t->lanes))
            return;
    const unsigned kind = t->waits, lanes = t->lanes;
    for (int k = first; k < first + n; k++)
        if (kind == 1 || lanes >> (k - first) & 1)
            threads[k].waits = 0;
}

static void
run_block(void (*entry)(void))
{
    static char *stacks;

    if (!stacks)
        stacks = (char *)malloc((size_t)THREADS * STACK);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread();
        threads[i].index.x = (unsigned)i % blockDim_.x;
        threads[i].index.y = (unsigned)i / blockDim_.x;
        getcontext(&threads[i].at);
        threads[i].at.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        threads[i].at.uc_stack.ss_size = STACK;
        threads[i].at.uc_link = &scheduler;
        makecontext(&threads[i].at, entry, 0);
    }
    /* Odd blocks go through their threads from the last to the first. */
    const int flip = blockIdx_.x % 2 ? THREADS - 1 : 0;

    for (int left = THREADS; left > 0;) {
        for (int k = 0; k < THREADS; k++) {
            const int i = k ^ flip;

            if (threads[i].ended || threads[i].waits)
                continue;
            self = &threads[i];
            swapcontext(&scheduler, &self->at);
            if (!self->waits) {
                self->ended = true;
                left--;
            }
        }
        for (int i = 0; i < THREADS; i++)
            if (threads[i].waits)
                release(i);
    }
}

static void __syncthreads(void) { wait(1, 0); }
static void __syncwarp(unsigned mask) { wait(2, mask); }

template <typename T>
static T
__shfl_xor_sync(unsigned mask, T v, int k)
{
    T r;

    memcpy(&self->slot, &v, sizeof v);
    __syncwarp(mask);
    memcpy(&r, &threads[(self - threads) ^ k].slot, sizeof r);
    __syncwarp(mask);
    return r;
}

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __noinline__
#define __align__(n) alignas(n)
#define threadIdx (self->index)
#define blockIdx blockIdx_
#define blockDim blockDim_
#define gridDim gridDim_
/* The text brings its own names for these, and they differ from the system's. */
#define int8_t cuda_int8_t
#define int16_t cuda_int16_t
#define int32_t cuda_int32_t
#define int64_t cuda_int64_t
#define uint8_t cuda_uint8_t
#define uint16_t cuda_uint16_t
#define uint32_t cuda_uint32_t
#define uint64_t cuda_uint64_t
