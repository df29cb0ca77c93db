#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
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

/* One more; `at`: where the text ends. Names that do not fit are left out. */
static void
add_file(struct fr_library_files *l, size_t *at, const char *folder, const char *name, const char *version)
{
    const size_t cap = sizeof l->text - *at;
    const int    n = snprintf(l->text + *at, cap, "%slib%s.so%s", folder, name, version);

    if (l->n == (int)FR_LEN(l->file) || n < 0 || (size_t)n >= cap)
        return;
    l->file[l->n++] = l->text + *at;
    *at += (size_t)n + 1;
}

void
fr_library_files(struct fr_library_files *l, const char *name, const char *setting)
{
    const char *home = getenv("CUDA_HOME") ? getenv("CUDA_HOME") : getenv("CUDA_PATH");
    char        folder[1024];
    size_t      at = 0;

    l->n = 0;
    if (*setting) {
        l->file[l->n++] = setting;
        return;
    }
    l->text[0] = '\0';
    if (fr_library_look)
        fr_library_look(name, l->text, sizeof l->text / 2);
    for (; l->text[at] && l->n < (int)FR_LEN(l->file) / 2; at += strlen(l->text + at) + 1)
        l->file[l->n++] = l->text + at;
    if (home && (size_t)snprintf(folder, sizeof folder, "%s/lib64/", home) < sizeof folder)
        add_file(l, &at, folder, name, "");
    add_file(l, &at, "", name, ".13");
    add_file(l, &at, "", name, ".12");
    add_file(l, &at, "", name, "");
    add_file(l, &at, "/usr/local/cuda/lib64/", name, "");
}
