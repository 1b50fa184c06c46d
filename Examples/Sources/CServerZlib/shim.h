#ifndef FERRY_SERVER_ZLIB_H
#define FERRY_SERVER_ZLIB_H

#include <zlib.h>

// zlib's initialisers are macros, which Swift does not import. Window bits 15 + 16 mean: gzip, and nothing else.

static inline int server_gzip_inflate_begin(z_stream *stream) {
    return inflateInit2(stream, 15 + 16);
}

static inline int server_gzip_deflate_begin(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}

// The length's type is a macro in some builds of zlib.
static inline unsigned long server_crc32_combine(unsigned long first, unsigned long second, long length) {
    return crc32_combine(first, second, length);
}

static inline int server_raw_deflate_begin(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
}

#endif
