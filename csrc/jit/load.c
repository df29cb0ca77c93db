#include "jit/load.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

#if defined __x86_64__
#define MACHINE EM_X86_64
#elif defined __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

/* ---- the check ------------------------------------------------------------------------------- */

struct image {
    const char *bytes;
    size_t      n;
};

/* The `size` bytes at `offset`, copied to be aligned; false when they are not all there. */
static bool
fetch(const struct image *im, uint64_t offset, void *to, size_t size)
{
    if (offset > im->n || size > im->n - offset)
        return false;
    memcpy(to, im->bytes + offset, size);
    return true;
}

static fr_status
bad(struct fr_err *err, const char *why)
{
    return fr_fail(err, FR_EBUG, "machine code: %s", why);
}

static fr_status
check_head(const struct image *im, Elf64_Ehdr *eh, struct fr_err *err)
{
    if (!fetch(im, 0, eh, sizeof *eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
        eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB)
        return bad(err, "not a 64-bit ELF file");
    if (eh->e_type != ET_DYN || eh->e_machine != MACHINE || eh->e_phentsize != sizeof(Elf64_Phdr))
        return bad(err, "not a shared object of this machine");
    if (eh->e_phnum == 0 || eh->e_phnum > 64)
        return bad(err, "no program headers");
    return FR_OK;
}

/* File offset of the byte that will be at virtual address `at`; SIZE_MAX if none is. */
static uint64_t
offset_of(const struct image *im, const Elf64_Ehdr *eh, uint64_t at)
{
    Elf64_Phdr ph;

    for (int i = 0; i < eh->e_phnum; i++)
        if (fetch(im, eh->e_phoff + (uint64_t)i * sizeof ph, &ph, sizeof ph) &&
            ph.p_type == PT_LOAD && at >= ph.p_vaddr && at - ph.p_vaddr < ph.p_filesz)
            return ph.p_offset + (at - ph.p_vaddr);
    return SIZE_MAX;
}

static fr_status
check_library(const struct image *im, uint64_t at, struct fr_err *err)
{
    static const char *const known[] = {"libc.so.6", "libm.so.6"};

    for (size_t i = 0; i < FR_LEN(known); i++) {
        size_t n = strlen(known[i]) + 1;

        if (at <= im->n && n <= im->n - at && !memcmp(im->bytes + at, known[i], n))
            return FR_OK;
    }
    return bad(err, "it needs a library that it should not need");
}

static fr_status
check_dynamic(const struct image *im, const Elf64_Ehdr *eh, const Elf64_Phdr *ph,
              struct fr_err *err)
{
    uint64_t  strtab = SIZE_MAX;
    Elf64_Dyn d;
    fr_status st = FR_OK;

    for (int pass = 0; pass < 2; pass++) {
        bool ended = false;

        for (uint64_t at = 0; at + sizeof d <= ph->p_filesz && !ended; at += sizeof d) {
            if (!fetch(im, ph->p_offset + at, &d, sizeof d))
                return bad(err, "its dynamic section is cut off");
            switch (d.d_tag) {
            case DT_NULL:
                ended = true;
                break;
            case DT_STRTAB:
                strtab = offset_of(im, eh, d.d_un.d_ptr);
                break;
            case DT_NEEDED:
                if (pass == 1)
                    TRY(strtab > im->n ? bad(err, "no string table")
                                       : check_library(im, strtab + d.d_un.d_val, err));
                break;
            case DT_INIT:
            case DT_FINI:
            case DT_INIT_ARRAY:
            case DT_FINI_ARRAY:
            case DT_PREINIT_ARRAY:
                return bad(err, "it has code that would run by being loaded");
            case DT_TEXTREL:
            case DT_RPATH:
            case DT_RUNPATH:
            case DT_AUXILIARY:
            case DT_FILTER:
            case DT_AUDIT:
            case DT_DEPAUDIT:
                return bad(err, "it has a dynamic entry that it should not have");
            default:
                break;
            }
        }
        if (!ended)
            return bad(err, "its dynamic section has no end");
    }
out:
    return st;
}

fr_status
fr_load_check(const void *bytes, size_t n, struct fr_err *err)
{
    struct image im = {bytes, n};
    Elf64_Ehdr   eh;
    Elf64_Phdr   ph;
    int          n_dynamic = 0;
    fr_status    st;

    TRY(check_head(&im, &eh, err));
    for (int i = 0; i < eh.e_phnum; i++) {
        if (!fetch(&im, eh.e_phoff + (uint64_t)i * sizeof ph, &ph, sizeof ph))
            return bad(err, "its program headers are cut off");
        if (ph.p_filesz && (ph.p_offset > n || ph.p_filesz > n - ph.p_offset))
            return bad(err, "a segment lies outside of the file");
        if (ph.p_type == PT_LOAD && (ph.p_flags & PF_W) && (ph.p_flags & PF_X))
            return bad(err, "memory both writable and executable");
        if (ph.p_type == PT_GNU_STACK && (ph.p_flags & PF_X))
            return bad(err, "it wants an executable stack");
        if (ph.p_type == PT_INTERP || ph.p_type == PT_TLS)
            return bad(err, "a segment that it should not have");
        if (ph.p_type == PT_DYNAMIC) {
            n_dynamic++;
            TRY(check_dynamic(&im, &eh, &ph, err));
        }
    }
    if (n_dynamic != 1)
        return bad(err, "not exactly one dynamic section");
out:
    return st;
}

/* ---- loading --------------------------------------------------------------------------------- */

static int
sealed_copy(const void *bytes, size_t n, struct fr_err *err)
{
    const char *p = bytes;
    size_t      left = n;
    int         fd = -1;

    if (!fr_alloc_may_fail()) {
        fd = memfd_create("frit-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
        if (fd < 0 && errno == EINVAL) /* older kernels do not know MFD_EXEC */
            fd = memfd_create("frit-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    while (fd >= 0 && left) {
        ssize_t k = write(fd, p, left);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            goto fail;
        p += k;
        left -= (size_t)k;
    }
    if (fd >= 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return fd;
fail:
    fr_fail(err, FR_EOS, "machine code of %zu bytes cannot be put into memory: %s", n,
            strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A name for descriptor `fd` that was never used before: the loader compares names, and would
 * return an older library under a descriptor's number. 64 random bits are written in the ways to say
 * "here": a further slash is a 0, a slash and a dot a 1. Random, because another copy of this code in
 * the process would count the same numbers. */
static void
unique_name(int fd, char *name, size_t cap)
{
    static atomic_uint_fast64_t serial;
    uint64_t                    id;
    size_t                      n = (size_t)snprintf(name, cap, "/proc/self/fd");

    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        id = ((uint64_t)(uintptr_t)&serial << 16 ^ (uint64_t)t.tv_nsec) +
             atomic_fetch_add(&serial, 1);
    }
    for (int bit = 0; bit < 64; bit++)
        n += (size_t)snprintf(name + n, cap - n, id >> bit & 1 ? "/." : "/");
    snprintf(name + n, cap - n, "/%d", fd);
}

static void *
look_up(void *lib, const char *what, const char *name)
{
    char symbol[64];

    snprintf(symbol, sizeof symbol, "%s_%s", what, name);
    return dlsym(lib, symbol);
}

fr_status
fr_load_code(const void *bytes, size_t n, const char *name, int n_stages, struct fr_nest_code *out,
             struct fr_err *err)
{
    char      path[192];
    void     *lib, *rows, *stages;
    int       fd;
    fr_status st;

    TRY(fr_load_check(bytes, n, err));
    if ((fd = sealed_copy(bytes, n, err)) < 0)
        return FR_EOS;
    unique_name(fd, path, sizeof path);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fr_fail(err, FR_EOS, "machine code cannot be loaded: %s", dlerror());
    close(fd);
    if (!lib)
        return FR_EOS;
    rows = look_up(lib, "frit_rows", name);
    stages = look_up(lib, "frit_stages", name);
    if (!rows) {
        dlclose(lib);
        return bad(err, "it does not have the kernel");
    }
    *out = (struct fr_nest_code){0};
    memcpy(&out->rows, &rows, sizeof rows);
    if (stages) {
        out->stage = (fr_stage_fn *const *)stages;
        out->mid = (fr_mid_fn *const *)stages + n_stages;
    }
out:
    return st;
}
