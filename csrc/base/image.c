#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, madvise */
#endif
#include "base/image.h"

#ifdef __linux__
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#if defined(__linux__) && defined(MADV_POPULATE_READ)

static void
populate(uintptr_t first, uintptr_t end, int how)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    first &= ~(page - 1);
    if (first < end)
        madvise((void *)first, end - first, how); /* which may be too much for an old kernel */
}

static int
touch(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t here = (uintptr_t)&fr_image_touch, read_only = 0;
    bool      is_ours = false;

    (void)size, (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t         first = info->dlpi_addr + h->p_vaddr;

        is_ours |= h->p_type == PT_LOAD && here >= first && here < first + h->p_memsz;
        if (h->p_type == PT_GNU_RELRO)
            read_only = first + h->p_memsz;
    }
    for (int i = 0; is_ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t         first = info->dlpi_addr + h->p_vaddr, end = first + h->p_memsz;

        if (h->p_type == PT_LOAD && h->p_flags & PF_X)
            populate(first, end, MADV_POPULATE_READ);
        else if (h->p_type == PT_LOAD && h->p_flags & PF_W)
            populate(first < read_only && read_only < end ? read_only : first, end, MADV_POPULATE_WRITE);
    }
    return is_ours;
}

void
fr_image_touch(void)
{
    dl_iterate_phdr(touch, NULL);
}

#else

void
fr_image_touch(void)
{
}

#endif
