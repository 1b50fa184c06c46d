#ifndef FERRY_CZLIB_SHIM_H
#define FERRY_CZLIB_SHIM_H

#include <zlib.h>

/// The init calls are macros in zlib.h, which Swift does not import.
/// `window_bits` of 15 + 16 writes and reads gzip (RFC 1952).
static inline int ferry_deflate_init(z_stream *stream, int level, int window_bits) {
    return deflateInit2(stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
}

static inline int ferry_inflate_init(z_stream *stream, int window_bits) {
    return inflateInit2(stream, window_bits);
}

#endif
