/* base/library.h -- shared libraries of others, looked up at run time and never linked: what is not there costs a call, not
 * an import. */
#ifndef FR_BASE_LIBRARY_H
#define FR_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A function that is wanted; its address goes `at` so many bytes of the caller's table. */
struct fr_symbol {
    const char *name;
    size_t      at;
};

/* Opens the first of `n_files` that the dynamic linker finds, and fills the table. It stays open: others may have its
 * addresses. path (of cap bytes): which it was. FR_EDEVICE: there is none, or it lacks a function; `what` names it. */
fr_status fr_library_open(const char *what, const char *const *files, int n_files, const struct fr_symbol *, int n_symbols,
                          void *table, char *path, size_t cap, struct fr_err *);

/* Files that may be a library of NVIDIA's toolkit, the likeliest first. */
struct fr_library_files {
    int         n;
    const char *file[24];
    char        text[8192];     /* their names, one behind the other */
};
/* `setting` alone, if it is not ""; else those of lib<name>.so that Python packages have, of $CUDA_HOME, and of the system.
 * Called while we are imported (fr_library_look). */
void fr_library_files(struct fr_library_files *, const char *name, const char *setting);

/* Where libraries of Python packages lie: writes files that may be `name` ("nvrtc"), one behind the other with '\0' between
 * them, and an empty one at the end, at most `cap` bytes in all. Set by bind, and called while we are imported. NULL: nowhere. */
extern FR_HIDDEN void (*fr_library_look)(const char *name, char *files, size_t cap);

#endif
