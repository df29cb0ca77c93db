/* jit/exec.c -- a region is one piece of anonymous shared memory, mapped twice:
 *
 *     code  [block][block]......[block].......   executable, never writable
 *     view  the same bytes                       nothing, but while a block is open
 *
 * Blocks lie in the order of their addresses; a new one goes into the first gap that holds it. A child of fork has the
 * very same memory: it puts nothing into the regions of its parent, and the parent nothing where a child may have a
 * block. A region goes with its last block. */
#include "jit/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

enum {
    REGION_BYTES = 256 << 10,
    ALIGN_LEAST = 64,
    SPARE_SHARE = 16, /* of all mappings that a process may have, so large a part is left to others */
    MAPS_PER_REGION = 2
};

struct fr_exec_region {
    struct fr_exec_region *next;
    struct fr_exec_block  *first;
    char                  *code, *view;
    size_t                 n, n_blocks; /* bytes; blocks that are not given back */
    pid_t                  process;
};

static struct fr_exec_region *regions;
static atomic_uint            n_forks;
static atomic_uint_fast64_t   n_bytes_taken, n_regions;

/* ---- mappings -------------------------------------------------------------------------------- */

static long
number_in(const char *path)
{
    char    text[32] = "";
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 ? strtol(text, NULL, 10) : -1;
}

static long
count_lines(const char *path)
{
    char    text[8192];
    long    lines = 0;
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    while ((n = read(fd, text, sizeof text)) > 0 || (n < 0 && errno == EINTR))
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

/* Whoever finds no mapping left can start no thread and load no library. */
static bool
maps_are_scarce(void)
{
    long most = number_in("/proc/sys/vm/max_map_count"), n = most < 0 ? -1 : count_lines("/proc/self/maps");

    return n >= 0 && n + MAPS_PER_REGION > most - most / SPARE_SHARE;
}

/* A descriptor of n bytes whose size stays; -1 if there is none. */
static int
shared_memory(size_t n)
{
    int fd;

    if (fr_alloc_may_fail()) {
        errno = ENOMEM;
        return -1;
    }
    fd = memfd_create("frit-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* older systems do not know MFD_EXEC */
        fd = memfd_create("frit-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)n) < 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void
region_free(struct fr_exec_region *r)
{
    if (r && r->code)
        munmap(r->code, r->n);
    if (r && r->view)
        munmap(r->view, r->n);
    fr_free(r);
}

static char *
map(int fd, size_t n, int protection)
{
    void *p = mmap(NULL, n, protection, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

static fr_status
add_region(size_t n, struct fr_exec_region **out, struct fr_err *err)
{
    struct fr_exec_region *r;
    int                    fd;

    n = (n + REGION_BYTES - 1) / REGION_BYTES * REGION_BYTES;
    if (maps_are_scarce())
        return fr_fail(err, FR_EOS, "machine code: the process has nearly all the mappings that it may have");
    if (!(r = fr_calloc(1, sizeof *r)))
        return fr_fail(err, FR_ENOMEM, "machine code");
    r->n = n;
    r->process = getpid();
    if ((fd = shared_memory(n)) >= 0) {
        if ((r->code = map(fd, n, PROT_READ | PROT_EXEC)))
            r->view = map(fd, n, PROT_NONE);
        if (!r->view)
            fr_fail(err, FR_EOS, "machine code cannot be mapped: %s", strerror(errno));
        close(fd);
    } else {
        fr_fail(err, FR_EOS, "machine code of %zu bytes cannot be put into memory: %s", n, strerror(errno));
    }
    if (!r->view) {
        region_free(r);
        return FR_EOS;
    }
    r->next = regions;
    *out = regions = r;
    n_regions++;
    return FR_OK;
}

void
fr_exec_forked(void)
{
    n_forks++;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t align) { return (n + align - 1) / align * align; }

/* The link at which a block of n bytes fits, and where in the region; NULL: there is no such gap. */
static struct fr_exec_block **
find_gap(struct fr_exec_region *r, size_t n, size_t align, size_t *at)
{
    struct fr_exec_block **link = &r->first;

    for (*at = 0; *link; link = &(*link)->next) {
        if (*at + n <= (*link)->at)
            return link;
        *at = round_up((*link)->at + (*link)->n, align);
    }
    return *at + n <= r->n ? link : NULL;
}

fr_status
fr_exec_take(size_t n, size_t align, struct fr_exec_block **out, struct fr_err *err)
{
    struct fr_exec_block  *b = fr_calloc(1, sizeof *b), **link = NULL;
    struct fr_exec_region *r = regions;
    fr_status              st = FR_OK;

    if (!b)
        return fr_fail(err, FR_ENOMEM, "machine code");
    align = align < ALIGN_LEAST ? ALIGN_LEAST : align;
    b->n = round_up(n, ALIGN_LEAST);
    for (; r && !link; r = link ? r : r->next)
        if (r->process == getpid())
            link = find_gap(r, b->n, align, &b->at);
    if (!link) {
        TRY(add_region(b->n, &r, err));
        link = &r->first;
        b->at = 0;
    }
    b->region = r;
    b->code = r->code + b->at;
    b->n_forks = n_forks;
    b->next = *link;
    *link = *out = b;
    r->n_blocks++;
    n_bytes_taken += b->n;
    b = NULL;
out:
    fr_free(b);
    return st;
}

char *
fr_exec_open(struct fr_exec_block *b)
{
    struct fr_exec_region *r = b->region;

    return mprotect(r->view, r->n, PROT_READ | PROT_WRITE) < 0 ? NULL : r->view + b->at;
}

void
fr_exec_close(struct fr_exec_block *b)
{
    struct fr_exec_region *r = b->region;

    mprotect(r->view, r->n, PROT_NONE);
    madvise(r->view, r->n, MADV_DONTNEED); /* or its pages would be counted as the process's twice */
    __builtin___clear_cache((char *)b->code, (char *)b->code + b->n);
}

static void
drop_block(struct fr_exec_block *b)
{
    struct fr_exec_block **link = &b->region->first;

    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    fr_free(b);
}

static void
drop_region(struct fr_exec_region *r)
{
    struct fr_exec_region **link = &regions;

    while (r->first)
        drop_block(r->first);
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    n_regions--;
    region_free(r);
}

void
fr_exec_give(struct fr_exec_block *b)
{
    struct fr_exec_region *r = b ? b->region : NULL;

    if (!b)
        return;
    n_bytes_taken -= b->n;
    b->code = NULL;
    if (--r->n_blocks == 0)
        drop_region(r);
    else if (b->n_forks == n_forks)
        drop_block(b);
}

void
fr_exec_stats(uint64_t *n_bytes, uint64_t *n_maps)
{
    *n_bytes = n_bytes_taken;
    *n_maps = n_regions * MAPS_PER_REGION;
}
