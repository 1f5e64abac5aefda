#define _GNU_SOURCE
#include "sign.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum {
    SIGNED_MOST = 1 << 14,
    SIGNATURE_BYTES = 28,
    COUNTER_BYTES = 16,
    BLOCK_BYTES = 64,
    DIGEST_BYTES = 20,
    FIELDS_MAX = 32
};

static const char NAME[] = "\"Signature\":\"";
static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char *access_key, *secret_key;
static uint64_t requests;

typedef struct {
    uint32_t state[5];
    uint64_t bytes;
    unsigned char block[BLOCK_BYTES];
} Sha1;

static uint32_t rotated(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

static void take_block(Sha1 *sha) {
    uint32_t words[80];
    for (int at = 0; at < 16; at++) words[at] = read_u32((const char *)sha->block + 4 * at);
    for (int at = 16; at < 80; at++)
        words[at] = rotated(words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16], 1);
    uint32_t a = sha->state[0], b = sha->state[1], c = sha->state[2], d = sha->state[3],
             e = sha->state[4];
    for (int at = 0; at < 80; at++) {
        uint32_t mixed = at < 20   ? (b & c) | (~b & d)
                         : at < 40 ? b ^ c ^ d
                         : at < 60 ? (b & c) | (b & d) | (c & d)
                                   : b ^ c ^ d;
        uint32_t constant = at < 20   ? 0x5A827999
                            : at < 40 ? 0x6ED9EBA1
                            : at < 60 ? 0x8F1BBCDC
                                      : 0xCA62C1D6;
        uint32_t next = rotated(a, 5) + mixed + e + constant + words[at];
        e = d, d = c, c = rotated(b, 30), b = a, a = next;
    }
    sha->state[0] += a, sha->state[1] += b, sha->state[2] += c, sha->state[3] += d;
    sha->state[4] += e;
}

static void begin(Sha1 *sha) {
    *sha = (Sha1){.state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0}};
}

static void add(Sha1 *sha, const char *data, size_t length) {
    for (size_t at = 0; at < length; at++) {
        sha->block[sha->bytes++ % BLOCK_BYTES] = (unsigned char)data[at];
        if (sha->bytes % BLOCK_BYTES == 0) take_block(sha);
    }
}

static void end(Sha1 *sha, char digest[DIGEST_BYTES]) {
    uint64_t bits = sha->bytes * 8;
    char zero = 0, one = (char)0x80, length[8];
    add(sha, &one, 1);
    while (sha->bytes % BLOCK_BYTES != BLOCK_BYTES - 8) add(sha, &zero, 1);
    put_u32(length, (uint32_t)(bits >> 32));
    put_u32(length + 4, (uint32_t)bits);
    add(sha, length, 8);
    for (int at = 0; at < 5; at++) put_u32(digest + 4 * at, sha->state[at]);
}

static void begin_with_secret(Sha1 *sha, char mask) {
    char pad[BLOCK_BYTES] = {0};
    memcpy(pad, secret_key, strlen(secret_key));
    for (int at = 0; at < BLOCK_BYTES; at++) pad[at] ^= mask;
    begin(sha);
    add(sha, pad, BLOCK_BYTES);
}

// Adds a value without its escapes, of which there are those of frames.c alone.
static void add_value(Sha1 *sha, const char *at, const char *end_of_value) {
    while (at < end_of_value) {
        if (at[0] == '\\' && at[1] == 'u') {
            char digits[5] = {at[2], at[3], at[4], at[5], 0}, byte = (char)strtol(digits, NULL, 16);
            add(sha, &byte, 1);
            at += 6;
        } else {
            add(sha, at++, 1);
        }
    }
}

typedef struct {
    const char *name, *value, *end;
    size_t name_length;
} Field;

static int in_order(const void *one, const void *other) {
    const Field *left = one, *right = other;
    size_t least = left->name_length < right->name_length ? left->name_length : right->name_length;
    int order = memcmp(left->name, right->name, least);
    return order ? order : (int)left->name_length - (int)right->name_length;
}

static int read_fields(const char *header, size_t length, Field fields[FIELDS_MAX]) {
    const char *at = memmem(header, length, "\"extFields\":{", 13);
    int count = 0;
    if (!at) die("a request has no fields");
    for (at += 13; at[-1] != '}'; at++) {
        if (count == FIELDS_MAX) die("a request has too many fields");
        Field *field = &fields[count++];
        field->name = ++at;
        at = strchr(at, '"');
        field->name_length = (size_t)(at - field->name);
        field->value = at += 3;
        at = field->end = strchr(at, '"');
        at++;
    }
    return count;
}

void sign_as(const char *key, const char *secret) {
    access_key = key;
    secret_key = secret;
    if (strlen(secret) > BLOCK_BYTES) die("--secret-key is longer than %d bytes", BLOCK_BYTES);
}

char *put_signer(char *at) {
    if (!access_key) return at;
    return at + sprintf(at, "\"AccessKey\":\"%s\",%s%.*s\",", access_key, NAME, SIGNATURE_BYTES,
                        "AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
}

static char *signature_of(char *frame) {
    char *found = memmem(frame + 8, read_u32(frame + 4), NAME, sizeof NAME - 1);
    if (!found) die("a request has no place for its signature");
    return found + sizeof NAME - 1;
}

void sign(char *frame) {
    if (!access_key) return;
    size_t header_length = read_u32(frame + 4), length = read_u32(frame) + 4;
    Field fields[FIELDS_MAX];
    Sha1 sha;
    char digest[DIGEST_BYTES + 1] = {0};
    int count = read_fields(frame + 8, header_length, fields);
    qsort(fields, (size_t)count, sizeof *fields, in_order);
    begin_with_secret(&sha, 0x36);
    for (int at = 0; at < count; at++)
        if (fields[at].name_length != 9 || memcmp(fields[at].name, "Signature", 9))
            add_value(&sha, fields[at].value, fields[at].end);
    add(&sha, frame + 8 + header_length, length - 8 - header_length);
    end(&sha, digest);
    begin_with_secret(&sha, 0x5C);
    add(&sha, digest, DIGEST_BYTES);
    end(&sha, digest);
    char *to = signature_of(frame);
    for (int at = 0; at < DIGEST_BYTES; at += 3, to += 4) {
        uint32_t bits = (uint32_t)(unsigned char)digest[at] << 16 |
                        (uint32_t)(unsigned char)digest[at + 1] << 8 |
                        (at + 2 < DIGEST_BYTES ? (unsigned char)digest[at + 2] : 0);
        for (int place = 0; place < 4; place++) to[place] = LETTERS[bits >> (18 - 6 * place) & 63];
        if (at + 2 >= DIGEST_BYTES) to[3] = '=';
    }
}

void sign_first(char *frame) {
    if (!access_key) return;
    if (requests++ < SIGNED_MOST) {
        sign(frame);
        return;
    }
    char *to = signature_of(frame);
    uint64_t number = requests;
    for (int at = 0; at < COUNTER_BYTES; at++, number >>= 4) to[at] = LETTERS[number & 15];
}
