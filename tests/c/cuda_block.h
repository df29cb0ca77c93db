/* tests/c/cuda_block.h -- runs a CUDA kernel of frit on the processor, block after block: each
 * thread is a context of its own that goes on until it waits for others.  tests/test_text.py puts
 * this before the text of a kernel, as a program under sanitizers: it reads launches from a file, has each array in
 * memory of exactly its size, and writes the arrays back. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { THREADS = 256, STACK = 64 << 10 };
struct dim { unsigned x, y, z; };

static struct dim blockIdx_, gridDim_, blockDim_;
char *buffers;      /* shared memory that is given with a launch */

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

    for (int left = THREADS, ran; left > 0;) {
        ran = 0;
        for (int k = 0; k < THREADS; k++) {
            const int i = k ^ flip;

            if (threads[i].ended || threads[i].waits)
                continue;
            self = &threads[i];
            ran++;
            swapcontext(&scheduler, &self->at);
            if (!self->waits) {
                self->ended = true;
                left--;
            }
        }
        for (int i = 0; i < THREADS; i++)
            if (threads[i].waits)
                release(i);
        if (!ran) {
            fprintf(stderr, "%d threads wait for others that do not come\n", left);
            exit(4);
        }
    }
}

/* What the file begins with. Behind it are the words of the kernel's argument, then, for each, the number of the array into which
 * it points, from 1, or 0; then the arrays, each behind its size. */
struct launches {
    uint64_t grid[3], block[2], shared, n_phases, phase_at /* word of the argument */, n_words, n_arrays;
};

static uint64_t *
read_words(FILE *f, size_t n)
{
    uint64_t *words = (uint64_t *)malloc(n * sizeof *words);

    if (fread(words, sizeof *words, n, f) != n)
        exit(2);
    return words;
}

static void
run_grid(void (*entry)(void))
{
    for (blockIdx_.z = 0; blockIdx_.z < gridDim_.z; blockIdx_.z++)
        for (blockIdx_.y = 0; blockIdx_.y < gridDim_.y; blockIdx_.y++)
            for (blockIdx_.x = 0; blockIdx_.x < gridDim_.x; blockIdx_.x++)
                run_block(entry);
}

/* of: the kernel's argument, which `entry` calls it with. */
static int
run_file(const char *path, void *of, size_t n_bytes, void (*entry)(void))
{
    FILE            *f = fopen(path, "r+b");
    struct launches *l = (struct launches *)read_words(f, sizeof *l / 8);
    uint64_t        *words = read_words(f, l->n_words), *array_of = read_words(f, l->n_words), *sizes[64];
    char            *arrays[64];
    uint64_t        *args = (uint64_t *)of;
    long             at = ftell(f);

    if (l->n_words * 8 != n_bytes)
        return 3;
    for (uint64_t a = 0; a < l->n_arrays; a++) {
        sizes[a] = read_words(f, 1);
        arrays[a] = (char *)malloc(*sizes[a]);
        if (fread(arrays[a], 1, *sizes[a], f) != *sizes[a])
            return 2;
    }
    for (uint64_t i = 0; i < l->n_words; i++)
        args[i] = words[i] + (array_of[i] ? (uint64_t)arrays[array_of[i] - 1] : 0);
    gridDim_ = {(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]};
    blockDim_ = {(unsigned)l->block[0], (unsigned)l->block[1], 1};
    buffers = (char *)malloc(l->shared);
    for (uint64_t phase = 0; phase < l->n_phases; phase++) {
        args[l->phase_at] = phase;
        run_grid(entry);
    }
    fseek(f, at, SEEK_SET);
    for (uint64_t a = 0; a < l->n_arrays; a++)
        if (fwrite(sizes[a], 8, 1, f) != 1 || fwrite(arrays[a], 1, *sizes[a], f) != *sizes[a])
            return 2;
    return fclose(f) ? 2 : 0;
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
#define __align__(n) __attribute__((aligned(n)))
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
