/* jit/load.c -- not by dlopen, which takes several mappings and pages of its own for each object: segments are copied as
 * they lie to each other, into pages that objects share (jit/exec.h), and addresses are filled in. That is little, for
 * what frit-cc makes has code and constants, no variables, and a few functions that it wants by name. */
#include "jit/load.h"

#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/blake2b.h"
#include "jit/cc/protocol.h"
#include "jit/exec.h"

#if defined __x86_64__
enum { MACHINE = EM_X86_64, REL_ADDRESS = R_X86_64_64, REL_GOT = R_X86_64_GLOB_DAT, REL_CALL = R_X86_64_JUMP_SLOT,
       REL_SELF = R_X86_64_RELATIVE };
#elif defined __aarch64__
enum { MACHINE = EM_AARCH64, REL_ADDRESS = R_AARCH64_ABS64, REL_GOT = R_AARCH64_GLOB_DAT,
       REL_CALL = R_AARCH64_JUMP_SLOT, REL_SELF = R_AARCH64_RELATIVE };
#else
enum { MACHINE = EM_NONE, REL_ADDRESS, REL_GOT, REL_CALL, REL_SELF };
#endif

#ifndef DT_RELR
#define DT_RELR 36
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
check_dynamic(const struct image *im, const Elf64_Ehdr *eh, const Elf64_Phdr *ph, struct fr_err *err)
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
            case DT_REL:
            case DT_RELR:
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
        if (ph.p_type == PT_LOAD && (ph.p_memsz > FR_PACKET_MAX || ph.p_vaddr > FR_PACKET_MAX - ph.p_memsz ||
                                     ph.p_filesz > ph.p_memsz || ph.p_align > FR_EXEC_ALIGN_MAX ||
                                     (ph.p_align & (ph.p_align - 1))))
            return bad(err, "a segment that cannot be placed");
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

struct table {
    uint64_t at, n; /* address in the object; bytes, or entries */
};

struct fr_object {
    struct fr_object     *next;
    struct fr_exec_block *block;
    uint8_t               digest[FR_DIGEST_BYTES];
    uint32_t              refs;
    size_t                n;                /* bytes, placed */
    struct table          symbols, strings; /* entries; bytes */
};

/* An object that is being placed. */
struct placing {
    char             *view;  /* where it is written */
    const char       *code;  /* where that will be */
    size_t            n;
    struct fr_object *o;
    struct table      relocations[2];
};

static struct fr_object *objects;

typedef void callable_fn(void);

/* All that code may call outside of its object. */
static const struct callable {
    const char  *name;
    callable_fn *address;
} callables[] = {
#define CALLABLE(name) {#name, (callable_fn *)name}
    CALLABLE(memcpy), CALLABLE(memmove), CALLABLE(memset), CALLABLE(memcmp), CALLABLE(fmod), CALLABLE(fmodf),
    CALLABLE(fma),    CALLABLE(fmaf),    CALLABLE(rint),   CALLABLE(rintf),  CALLABLE(sqrt), CALLABLE(sqrtf),
    CALLABLE(floor),  CALLABLE(floorf),  CALLABLE(ceil),   CALLABLE(ceilf),  CALLABLE(trunc), CALLABLE(truncf),
#undef CALLABLE
};

static bool lies_in(size_t n, uint64_t at, uint64_t size) { return at <= n && size <= n - at; }

/* The name at `offset` of the strings; NULL when it has no end. */
static const char *
string_at(const struct fr_object *o, const char *image, uint64_t offset)
{
    const char *s = image + o->strings.at;

    return offset < o->strings.n && memchr(s + offset, 0, o->strings.n - offset) ? s + offset : NULL;
}

static bool
symbol_at(const struct fr_object *o, const char *image, uint64_t i, Elf64_Sym *out)
{
    if (i >= o->symbols.n)
        return false;
    memcpy(out, image + o->symbols.at + i * sizeof *out, sizeof *out);
    return out->st_shndx == SHN_UNDEF || out->st_value < o->n;
}

/* Copies the segments, and finds the tables. */
static fr_status
place_segments(struct placing *p, const struct image *im, const Elf64_Ehdr *eh, struct fr_err *err)
{
    struct fr_object *o = p->o;
    Elf64_Phdr        ph;
    Elf64_Dyn         d;
    uint64_t          hash = SIZE_MAX;
    uint32_t          n_symbols = 0;

    memset(p->view, 0, p->n);
    for (int i = 0; i < eh->e_phnum; i++) {
        fetch(im, eh->e_phoff + (uint64_t)i * sizeof ph, &ph, sizeof ph);
        if (ph.p_type == PT_LOAD)
            memcpy(p->view + ph.p_vaddr, im->bytes + ph.p_offset, ph.p_filesz);
        for (uint64_t at = 0; ph.p_type == PT_DYNAMIC && at + sizeof d <= ph.p_filesz; at += sizeof d) {
            fetch(im, ph.p_offset + at, &d, sizeof d);
            switch (d.d_tag) {
            case DT_NULL: at = ph.p_filesz - sizeof d; break;
            case DT_HASH: hash = d.d_un.d_ptr; break;
            case DT_SYMTAB: o->symbols.at = d.d_un.d_ptr; break;
            case DT_STRTAB: o->strings.at = d.d_un.d_ptr; break;
            case DT_STRSZ: o->strings.n = d.d_un.d_val; break;
            case DT_RELA: p->relocations[0].at = d.d_un.d_ptr; break;
            case DT_RELASZ: p->relocations[0].n = d.d_un.d_val / sizeof(Elf64_Rela); break;
            case DT_JMPREL: p->relocations[1].at = d.d_un.d_ptr; break;
            case DT_PLTRELSZ: p->relocations[1].n = d.d_un.d_val / sizeof(Elf64_Rela); break;
            default: break;
            }
        }
    }
    if (!lies_in(p->n, hash, 2 * sizeof n_symbols))
        return bad(err, "no table of its names");
    memcpy(&n_symbols, p->view + hash + sizeof n_symbols, sizeof n_symbols);
    o->symbols.n = n_symbols;
    if (!lies_in(p->n, o->symbols.at, o->symbols.n * sizeof(Elf64_Sym)) || !lies_in(p->n, o->strings.at, o->strings.n))
        return bad(err, "its names lie outside of it");
    return FR_OK;
}

static fr_status
find_callable(const char *name, uint64_t *out, struct fr_err *err)
{
    for (size_t i = 0; i < FR_LEN(callables); i++)
        if (name && !strcmp(callables[i].name, name)) {
            *out = (uint64_t)(uintptr_t)callables[i].address;
            return FR_OK;
        }
    return fr_fail(err, FR_EBUG, "machine code: it calls `%s`", name ? name : "?");
}

/* What is to be written for a relocation. */
static fr_status
value_of(const struct placing *p, const Elf64_Rela *r, uint64_t *out, struct fr_err *err)
{
    uint64_t  base = (uint64_t)(uintptr_t)p->code;
    Elf64_Sym s;

    switch (ELF64_R_TYPE(r->r_info)) {
    case REL_SELF:
        *out = base + (uint64_t)r->r_addend;
        return (uint64_t)r->r_addend < p->n ? FR_OK : bad(err, "it refers to something outside of it");
    case REL_ADDRESS:
    case REL_GOT:
    case REL_CALL:
        if (!symbol_at(p->o, p->view, ELF64_R_SYM(r->r_info), &s) || r->r_addend)
            return bad(err, "it refers to what it does not have");
        if (s.st_shndx == SHN_UNDEF)
            return find_callable(string_at(p->o, p->view, s.st_name), out, err);
        *out = base + s.st_value;
        return FR_OK;
    default:
        return bad(err, "a relocation that it should not have");
    }
}

static fr_status
relocate(const struct placing *p, struct fr_err *err)
{
    Elf64_Rela r;
    uint64_t   value = 0;
    fr_status  st = FR_OK;

    for (int k = 0; k < 2; k++) {
        const struct table *t = &p->relocations[k];

        if (t->n > p->n || !lies_in(p->n, t->at, t->n * sizeof r))
            return bad(err, "its relocations lie outside of it");
        for (uint64_t i = 0; i < t->n; i++) {
            memcpy(&r, p->view + t->at + i * sizeof r, sizeof r);
            if (!lies_in(p->n, r.r_offset, sizeof value))
                return bad(err, "a relocation lies outside of it");
            TRY(value_of(p, &r, &value, err));
            memcpy(p->view + r.r_offset, &value, sizeof value);
        }
    }
out:
    return st;
}

/* The room that all segments take together. */
static void
measure(const struct image *im, Elf64_Ehdr *eh, size_t *n, size_t *align)
{
    Elf64_Phdr ph;

    fetch(im, 0, eh, sizeof *eh);
    for (int i = 0; i < eh->e_phnum; i++) {
        fetch(im, eh->e_phoff + (uint64_t)i * sizeof ph, &ph, sizeof ph);
        if (ph.p_type != PT_LOAD)
            continue;
        *n = ph.p_vaddr + ph.p_memsz > *n ? ph.p_vaddr + ph.p_memsz : *n;
        *align = ph.p_align > *align ? ph.p_align : *align;
    }
}

static fr_status
place(struct fr_object *o, const struct image *im, struct fr_err *err)
{
    struct placing p = {.o = o};
    Elf64_Ehdr     eh;
    size_t         align = 1;
    fr_status      st;

    measure(im, &eh, &o->n, &align);
    p.n = o->n;
    TRY(fr_exec_take(o->n, align, &o->block, err));
    p.code = o->block->code;
    if (!(p.view = fr_exec_open(o->block)))
        return fr_fail(err, FR_EOS, "machine code cannot be written");
    st = place_segments(&p, im, &eh, err);
    if (st == FR_OK)
        st = relocate(&p, err);
    fr_exec_close(o->block);
out:
    return st;
}

fr_status
fr_object_get(const void *bytes, size_t n, struct fr_object **out, struct fr_err *err)
{
    struct image      im = {bytes, n};
    struct fr_blake2b h;
    struct fr_object *o;
    uint8_t           digest[FR_DIGEST_BYTES];
    fr_status         st;

    fr_blake2b_init(&h, FR_DIGEST_BYTES, NULL, 0);
    fr_blake2b_update(&h, bytes, n);
    fr_blake2b_final(&h, digest);
    for (o = objects; o; o = o->next)
        if (!memcmp(o->digest, digest, sizeof digest)) {
            o->refs++;
            *out = o;
            return FR_OK;
        }
    TRY(fr_load_check(bytes, n, err));
    if (!(o = fr_calloc(1, sizeof *o)))
        return fr_fail(err, FR_ENOMEM, "machine code");
    if ((st = place(o, &im, err)) != FR_OK) {
        fr_exec_give(o->block);
        fr_free(o);
        return st;
    }
    memcpy(o->digest, digest, sizeof digest);
    o->refs = 1;
    o->next = objects;
    *out = objects = o;
out:
    return st;
}

void
fr_object_unref(struct fr_object *o)
{
    struct fr_object **link = &objects;

    if (!o || --o->refs)
        return;
    while (*link != o)
        link = &(*link)->next;
    *link = o->next;
    fr_exec_give(o->block);
    fr_free(o);
}

/* Where <what>_<name> is, of so many bytes; NULL if it is not there. */
static const void *
look_up(const struct fr_object *o, const char *what, const char *name, size_t size)
{
    const char *image = o->block->code;
    char        wanted[64];
    Elf64_Sym   s;

    snprintf(wanted, sizeof wanted, "%s_%s", what, name);
    for (uint64_t i = 0; i < o->symbols.n; i++)
        if (symbol_at(o, image, i, &s) && s.st_shndx != SHN_UNDEF && lies_in(o->n, s.st_value, size)) {
            const char *is = string_at(o, image, s.st_name);

            if (is && !strcmp(is, wanted))
                return image + s.st_value;
        }
    return NULL;
}

fr_status
fr_object_find(const struct fr_object *o, const char *name, int n_stages, struct fr_nest_code *out, struct fr_err *err)
{
    const void *rows = look_up(o, "frit_rows", name, 1);
    const void *stages = look_up(o, "frit_stages", name, (2 * (size_t)n_stages + 1) * sizeof(void *));

    if (!rows)
        return bad(err, "it does not have the kernel");
    *out = (struct fr_nest_code){0};
    memcpy(&out->rows, &rows, sizeof rows);
    if (stages) {
        out->stage = (fr_stage_fn *const *)stages;
        out->mid = (fr_mid_fn *const *)stages + n_stages;
    }
    return FR_OK;
}
