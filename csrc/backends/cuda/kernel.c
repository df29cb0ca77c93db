#include "backends/cuda/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "jit/emit_text.h"
#include "jit/nvrtc_ahead.h"

static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_kernel *folds[FR_CUDA_DEVICES][FR_N_OPS][FR_N_DTYPES];
static struct fr_cuda_code *codes;                       /* those of calls and scans */

static void free_code(struct fr_cuda_code *);

static struct fr_cuda_kernel *
own(struct fr_kernel *k)
{
    return (struct fr_cuda_kernel *)k;
}

fr_status
fr_cuda_kernel_new(const struct fr_backend *self, const struct fr_nest *nest, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_cuda_kernel *c = fr_calloc(1, sizeof *c);
    fr_status              st;

    if (!c)
        return fr_no_memory(err, "a kernel");
    if ((st = fr_nest_copy(nest, &c->k.nest, err)) != FR_OK) {
        fr_free(c);
        return st;
    }
    c->k.device = self->device;
    fr_cuda_layout(nest, &c->layout);
    c->has_stages = fr_nest_has_stages(nest);
    c->vector = fr_cuda_vector(nest);
    c->accumulates = fr_nest_accumulates(nest);
    c->splits = fr_cuda_splits(nest);
    c->has_lines = fr_cuda_has_lines(nest);
    c->has_tiles = fr_cuda_has_tiles(nest);
    c->has_deep_tiles = fr_cuda_has_deep_tiles(nest);
    for (uint32_t i = 0; i < nest->n_insts; i++)
        c->rounds |= nest->insts[i].kind == FR_INST_ACCUM && fr_op_rounds((fr_op)nest->insts[i].op, nest->insts[i].dtype);
    for (uint32_t i = 0; i < nest->n_insts && !c->has_stages; i++)
        c->overwrites |= nest->insts[i].kind == FR_INST_STORE && nest->insts[i].level != FR_LEVEL_FULL;
    for (int k = 0; k < nest->n_operands; k++)
        c->streams |= (nest->operands[k].flags & FR_OPERAND_STREAM) != 0;
    for (int k = 0; k < nest->n_operands; k++)
        if (c->vector > 1 && fr_cuda_is_vector(nest, k)) {
            const int size = c->vector * fr_dtype_size(nest->operands[k].dtype);

            c->vector_mask[k] = (uint8_t)((size < 16 ? size : 16) - 1);
        }
    *out = &c->k;
    return FR_OK;
}

void
fr_cuda_kernel_free(struct fr_kernel *k)
{
    struct fr_cuda_kernel *c = own(k);

    for (int i = 0; i < FR_CUDA_FORMS; i++)
        free_code(&c->code[i]);
    fr_nest_free(c->k.nest);
    fr_free(c);
}

/* The driver compiles PTX here, and says what it does not like. */
static fr_status
load_image(const struct fr_image *image, const char *name, struct fr_cuda_device *d, struct fr_cuda_code *out, struct fr_err *err)
{
    char      log[400] = "";
    int       options[] = {FR_CUDA_ERROR_LOG, FR_CUDA_ERROR_LOG_BYTES};
    void     *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int       result = d->driver->module_load(&out->module, image->bytes, 2, options, values);
    fr_status st = fr_cuda_check(result, *log ? log : "a kernel's code", err);

    if (st != FR_OK)
        out->module = NULL;
    else if ((st = fr_cuda_check(d->driver->function(&out->function, out->module, name), "a kernel's function", err)) != FR_OK)
        out->function = NULL;
    return st;
}

static bool
is_quick(void)
{
    return fr_env.jit_bits == FR_JIT_INTERPRET;
}

/* What has been asked for is taken; else it is looked for and compiled. */
static fr_status
make_code(struct fr_cuda_code *code, const char *name, const struct fr_nvrtc_source *of, struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_ahead *ahead = code->ahead;
    struct fr_image  image = {0};
    fr_status        st;

    code->ahead = NULL;
    code->device = d;
    if (ahead) {
        TRY(fr_ahead_take(ahead, &image, err));
    } else {
        if (fr_env.debug >= 4)
            fr_log(4, "%s", of->text);
        TRY(fr_nvrtc_find(of, &image, err));
        if (!image.bytes)
            TRY(fr_nvrtc_compile(of, &image, err));
    }
    TRY(load_image(&image, name, d, code, err));
out:
    fr_image_clear(&image);
    if (st != FR_OK)
        free_code(code);
    return st;
}

/* Need not be within fr_cuda_enter. */
static void
free_code(struct fr_cuda_code *code)
{
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    fr_ahead_drop(code->ahead);
    /* (The driver unloads what runs when it has run.) */
    if (code->module && fr_cuda_enter(code->device->backend, &d, &ignored) == FR_OK) {
        d->driver->module_unload(code->module);
        fr_cuda_leave(d);
    }
    *code = (struct fr_cuda_code){0};
}

fr_status
fr_cuda_code_get(struct fr_cuda_code of_devices[FR_CUDA_DEVICES], const struct fr_cuda_source *of, struct fr_cuda_device *d, fr_cuda_function *out,
                 struct fr_err *err)
{
    struct fr_cuda_code *code = &of_devices[d->ordinal];
    struct fr_text       text = {0};
    fr_status            st = FR_OK;

    pthread_mutex_lock(&lock);
    if (FR_UNLIKELY(!code->function)) {
        struct fr_nvrtc_source source = {.arch = d->arch, .is_quick = is_quick()};

        TRY(of->write(&text, of, err));
        source.text = text.s;
        for (int i = 0; i < FR_NVRTC_DEFINES && of->defines[i]; i++)
            snprintf(source.defines[i], sizeof source.defines[i], "%s", of->defines[i]);
        TRY(make_code(code, of->name, &source, d, err));
        code->next = codes;
        codes = code;
    }
out:
    *out = code->function;
    pthread_mutex_unlock(&lock);
    fr_text_clear(&text);
    return st;
}

void
fr_cuda_codes_free(void)
{
    for (struct fr_cuda_code *code = codes, *next; code; code = next) {
        next = code->next;
        free_code(code);
    }
    codes = NULL;
}

/* What a form is compiled from, but for the text. */
static void
fill_source(const struct fr_cuda_kernel *c, int form, const struct fr_cuda_device *d, struct fr_nvrtc_source *out)
{
    char vector[FR_NVRTC_DEFINE_BYTES];
    int  n = 0;

    *out = (struct fr_nvrtc_source){.arch = d->arch, .is_quick = is_quick()};
    snprintf(vector, sizeof vector, "-DVEC=%d", c->vector);
    strcpy(out->defines[n++], form & FR_CUDA_HAS_OUTER ? "-DOUTER=1" : "-DOUTER=0");
    strcpy(out->defines[n++], form & FR_CUDA_WARP_ROWS ? "-DROW=32" : "-DROW=256");
    if (form & FR_CUDA_SPLIT)
        strcpy(out->defines[n++], "-DSPLIT=1");
    else if (form & FR_CUDA_SHARED_COLUMNS)
        strcpy(out->defines[n++], "-DSPLIT=2");
    else if (form & FR_CUDA_SHARED_ROWS)
        strcpy(out->defines[n++], "-DSHARED=1");
    else if (form & FR_CUDA_VECTORS)
        strcpy(out->defines[n++], vector);
    else if (form & FR_CUDA_TILED)
        strcpy(out->defines[n++], form & FR_CUDA_NARROW ? "-DTILED=8" : "-DTILED=32");
    if (form & FR_CUDA_MANY)
        strcpy(out->defines[n++], "-DMANY=1");
    FR_ASSERT(n <= FR_NVRTC_DEFINES);
}

/* More than 48 KB have to be asked for. */
static fr_status
ask_for_shared(struct fr_cuda_code *code, struct fr_cuda_device *d, struct fr_err *err)
{
    int       own = 0;
    fr_status st = fr_cuda_check(d->driver->function_get(&own, FR_CUDA_STATIC_SHARED, code->function), "shared memory of a kernel", err);

    code->most_shared = d->shared_bytes - own;
    return st != FR_OK ? st : fr_cuda_check(d->driver->function_set(code->function, FR_CUDA_DYNAMIC_SHARED, code->most_shared),
                                            "shared memory of a kernel", err);
}

static fr_status
make(struct fr_cuda_kernel *c, int form, struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_cuda_code *code = &c->code[form];
    struct fr_text       text = {0};
    struct fr_nvrtc_source source;
    fr_status            st = FR_OK;

    fill_source(c, form, d, &source);
    if (!code->ahead)
        TRY(fr_text_nest(&text, c->k.nest, FR_DIALECT_CUDA, err));
    source.text = text.s;
    TRY(make_code(code, "frit_nest", &source, d, err));
    if (form & FR_CUDA_SHARED_ROWS)
        TRY(ask_for_shared(code, d, err));
out:
    fr_text_clear(&text);
    if (st != FR_OK)
        free_code(code);
    return st;
}

/* (Plans are made on other threads than those that launch.) */
fr_status
fr_cuda_kernel_get(struct fr_cuda_kernel *c, int form, struct fr_cuda_device *d, fr_cuda_function *out, int *most_shared,
                   struct fr_err *err)
{
    fr_status st = FR_OK;

    pthread_mutex_lock(&lock);
    if (FR_UNLIKELY(!c->code[form].function))
        st = make(c, form, d, err);
    *out = c->code[form].function;
    *most_shared = c->code[form].most_shared;
    pthread_mutex_unlock(&lock);
    return st;
}

void
fr_cuda_kernel_ask(struct fr_cuda_kernel *c, int form, bool is_later, struct fr_cuda_device *d)
{
    struct fr_cuda_code   *code = &c->code[form];
    struct fr_text         text = {0};
    struct fr_nvrtc_source source;
    struct fr_err          ignored;

    pthread_mutex_lock(&lock);
    if (code->ahead) {
        if (!is_later)
            fr_ahead_hurry(code->ahead);
    } else if (!code->function && fr_text_nest(&text, c->k.nest, FR_DIALECT_CUDA, &ignored) == FR_OK) {
        fill_source(c, form, d, &source);
        source.text = text.s;
        code->ahead = fr_ahead_ask(&source, is_later);
        text.s = NULL;
    }
    pthread_mutex_unlock(&lock);
    fr_text_clear(&text);
}

bool
fr_cuda_kernel_waits(const struct fr_kernel *k)
{
    const struct fr_cuda_kernel *c = (const struct fr_cuda_kernel *)k;
    bool                         waits = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < FR_CUDA_FORMS && !waits; i++)
        waits = c->code[i].ahead && !fr_ahead_is_done(c->code[i].ahead);
    pthread_mutex_unlock(&lock);
    return waits;
}

static fr_status
new_fold(const struct fr_backend *self, fr_op op, fr_dtype d, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_inst insts[2] = {
        {.kind = FR_INST_LOAD, .level = FR_LEVEL_FULL, .dtype = d},
        {.kind = FR_INST_ACCUM, .level = FR_LEVEL_FULL, .dtype = d, .op = op, .operand = 1}};
    struct fr_operand operands[2] = {{.dtype = d}, {.dtype = d, .access = FR_ACCESS_STRIDED, .flags = FR_OPERAND_WRITTEN}};
    struct fr_nest    nest = {.n_insts = 2, .n_operands = 2, .n_stages = 1, .insts = insts, .operands = operands};
    fr_status         st = fr_nest_verify(&nest, err);

    return st == FR_OK ? fr_cuda_kernel_new(self, &nest, out, err) : st;
}

fr_status
fr_cuda_fold_kernel(struct fr_cuda_device *device, fr_op op, fr_dtype d, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_kernel **fold = &folds[device->ordinal][op][d];
    fr_status          st = FR_OK;

    pthread_mutex_lock(&lock);
    if (!*fold)
        st = new_fold(device->backend, op, d, fold, err);
    *out = *fold;
    pthread_mutex_unlock(&lock);
    return st;
}

void
fr_cuda_fold_kernels_free(void)
{
    struct fr_kernel **fold = folds[0][0];

    for (size_t i = 0; i < sizeof folds / sizeof *fold; i++)
        if (fold[i]) {
            fr_cuda_kernel_free(fold[i]);
            fold[i] = NULL;
        }
}
