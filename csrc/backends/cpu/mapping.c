/* backends/cpu/mapping.c -- see mapping.h. */
#define _GNU_SOURCE
#include "backends/cpu/mapping.h"

#include <sys/mman.h>

#include "base/alloc.h"

static uint64_t n_maps;

/* A larger mapping, cut to size. */
void *
fr_map(size_t n_bytes, size_t align)
{
    size_t whole = n_bytes + align - FR_PAGE, before;
    char  *p;

    if (fr_alloc_may_fail())
        return NULL;
    p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    __atomic_fetch_add(&n_maps, 1, __ATOMIC_RELAXED);
    before = (align - (uintptr_t)p % align) % align;
    if (before)
        munmap(p, before);
    if (whole - before > n_bytes)
        munmap(p + before + n_bytes, whole - before - n_bytes);
#if defined(MADV_HUGEPAGE)
    madvise(p + before, n_bytes, MADV_HUGEPAGE);
#endif
    return p + before;
}

void
fr_unmap(void *p, size_t n_bytes)
{
    munmap(p, n_bytes);
}

void
fr_map_dry(void *p, size_t n_bytes)
{
    madvise(p, n_bytes, MADV_DONTNEED);
}

void
fr_map_populate(char *from, char *to)
{
    if (!from || from >= to)
        return;
#ifdef MADV_POPULATE_WRITE
    if (madvise(from, (size_t)(to - from), MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (char *p = from; p < to; p += FR_PAGE)
        __atomic_fetch_or(p, 0, __ATOMIC_RELAXED);
}

uint64_t
fr_map_count(void)
{
    return __atomic_load_n(&n_maps, __ATOMIC_RELAXED);
}
