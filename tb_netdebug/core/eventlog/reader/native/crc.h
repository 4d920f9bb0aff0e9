// The CRC-32C of event files, eight bytes at a time, by the processor's own instruction where it has one.

#ifndef NETDEBUG_CRC_H
#define NETDEBUG_CRC_H

#include "bytes.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <nmmintrin.h>
#define HAVE_CRC_INSTRUCTION 1
#endif

static uint32_t crc_table[8][256];
static int has_instruction;

static void prepare_crc(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc_table[0][byte] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_table[row - 1][byte];
            crc_table[row][byte] = crc >> 8 ^ crc_table[0][crc & 255];
        }
#ifdef HAVE_CRC_INSTRUCTION
    has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

#ifdef HAVE_CRC_INSTRUCTION
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(const uint8_t *p, size_t size) {
    uint64_t crc = 0xFFFFFFFFu;
    for (; size >= 8; p += 8, size -= 8) crc = _mm_crc32_u64(crc, read_u64(p));
    for (; size; p++, size--) crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}
#endif

static uint32_t crc_by_table(const uint8_t *p, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t low = crc ^ read_u32(p), high = read_u32(p + 4);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    for (; size; p++, size--) crc = crc >> 8 ^ crc_table[0][(crc ^ *p) & 255];
    return ~crc;
}

static uint32_t masked_crc(const uint8_t *p, size_t size) {
#ifdef HAVE_CRC_INSTRUCTION
    uint32_t crc = has_instruction ? crc_by_instruction(p, size) : crc_by_table(p, size);
#else
    uint32_t crc = crc_by_table(p, size);
#endif
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

#endif
