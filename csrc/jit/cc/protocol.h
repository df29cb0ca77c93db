/* jit/cc/protocol.h -- what jit/helper.c and the helper program say to each other over their
 * socket: frames of a head and `n_bytes` bytes.  Both are built together, so numbers travel as
 * they are. */
#ifndef FR_JIT_CC_PROTOCOL_H
#define FR_JIT_CC_PROTOCOL_H

#include <stdint.h>

/* The helper's TMPDIR: this, the parent's process number, six letters. Made by the parent, removed by both. */
#define FR_TMPDIR_PREFIX "frit-cc-"

#define FR_FRAME_MAGIC 0x43435246u /* "FRCC" */

enum fr_frame_kind {
    FR_FRAME_HELLO = 1,    /* helper, once: the compiler's digest (32 bytes), then its path */
    FR_FRAME_COMPILE,      /* parent: u32 count of features, each a C string; u32 count of nests, each
                              its name, a C string, u64 bytes and the packed nest */
    FR_FRAME_OBJECT,       /* helper: a shared object with the code of the first, at least */
    FR_FRAME_FAILED,       /* helper: why there is none */
    FR_FRAME_NO_ROOM,      /* helper: why nothing can be compiled for now; it ends */
    FR_FRAME_NO_COMPILER,  /* helper: why nothing can be compiled on this machine */
};

struct fr_frame {
    uint32_t magic, kind;
    uint64_t n_bytes;
};

enum { FR_FRAME_MAX = 64 << 20,    /* bytes; more is not believed */
       FR_BATCH_MAX = 8,           /* nests of one object */
       FR_KERNEL_NAME = 17 };      /* bytes of a name, with the NUL: digits and a to f */

#endif
