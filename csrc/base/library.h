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

/* Where libraries of Python packages lie: writes files that may be `name` ("nvrtc"), one behind the other with '\0' between
 * them, and an empty one at the end, at most `cap` bytes in all. Set by bind, and called while we are imported. NULL: nowhere. */
extern FR_HIDDEN void (*fr_library_look)(const char *name, char *files, size_t cap);

#endif
