/* jit/cc/protocol.h -- what jit/helper.c and the helper program say to each other over their
 * socket: frames of a head and `n_bytes` bytes.  Both are built together, so numbers travel as
 * they are. */
#ifndef FR_JIT_CC_PROTOCOL_H
#define FR_JIT_CC_PROTOCOL_H

#include <stdint.h>

/* The helper's TMPDIR: this, the parent's process number, six letters. Made by the parent, removed by both. */
#define FR_TMPDIR_PREFIX "frit-cc-"

#define FR_PACKET_MAGIC 0x43435246u /* "FRCC" */

enum fr_packet_kind {
    FR_PACKET_HELLO = 1,    /* helper, once: the compiler's digest (32 bytes), then its path */
    FR_PACKET_COMPILE,      /* parent: u32 count of features, each a C string; u32 count of nests, each
                              its name, a C string, u64 bytes and the packed nest */
    FR_PACKET_OBJECT,       /* helper: a shared object with the code of the first, at least */
    FR_PACKET_FAILED,       /* helper: why there is none */
    FR_PACKET_NO_ROOM,      /* helper: why nothing can be compiled for now; it ends */
    FR_PACKET_NO_COMPILER,  /* helper: why nothing can be compiled on this machine */
};

struct fr_packet {
    uint32_t magic, kind;
    uint64_t n_bytes;
};

enum { FR_PACKET_MAX = 64 << 20,    /* bytes; more is not believed */
       FR_BATCH_MAX = 8,           /* nests of one object */
       FR_KERNEL_NAME = 17 };      /* bytes of a name, with the NUL: digits and a to f */

#endif
