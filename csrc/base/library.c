#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void (*fr_library_look)(const char *name, char *files, size_t cap);

static fr_status
fill(const char *what, void *handle, const char *file, const struct fr_symbol *symbols, int n, void *table, struct fr_err *err)
{
    for (int i = 0; i < n; i++) {
        void *address = dlsym(handle, symbols[i].name);

        if (!address)
            return fr_fail(err, FR_EDEVICE, "%s: %s is too old, it has no %s", what, file, symbols[i].name);
        memcpy((char *)table + symbols[i].at, &address, sizeof address);
    }
    return FR_OK;
}

fr_status
fr_library_open(const char *what, const char *const *files, int n_files, const struct fr_symbol *symbols, int n_symbols,
                void *table, char *path, size_t cap, struct fr_err *err)
{
    char why[300] = "nobody knows where it is";

    for (int i = 0; i < n_files; i++) {
        void       *handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        const char *said = handle ? NULL : dlerror();
        fr_status   st;

        if (!handle) {
            snprintf(why, sizeof why, "%s", said ? said : files[i]);
            continue;
        }
        if ((st = fill(what, handle, files[i], symbols, n_symbols, table, err)) != FR_OK)
            dlclose(handle);
        else
            snprintf(path, cap, "%s", files[i]);
        return st;
    }
    return fr_fail(err, FR_EDEVICE, "there is no %s: %s", what, why);
}
