#define _GNU_SOURCE
#include "frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "sign.h"

enum {
    HEADER_BYTES_MAX = 2048,
    PROPERTY_BYTES_MAX = 256,
    RECORD_MAGIC_V1 = (int)0xDAA320A7,
    RECORD_MAGIC_V2 = (int)0xDAA320AB,
    RECORD_FIXED_BYTES = 88
};

static const char BORN[] = "0000000000000";
static const char KEY[] = "00000000";
static const char UNIQUE[] = "7F0000010A2B18B4AAC2000000000000";

typedef struct {
    char text[PROPERTY_BYTES_MAX];
    size_t length, key_at, unique_at, tag_at;
} Properties;

// `one` and `two` are what stands between name and value, and behind a value.
static Properties properties_of(bool tags_first, const char *one, const char *two) {
    Properties made = {0};
    char *at = made.text;
    for (int pass = 0; pass < 2; pass++)
        if ((pass == 0) == tags_first) {
            at += sprintf(at, "TAGS%s", one);
            made.tag_at = (size_t)(at + 3 - made.text);
            at += sprintf(at, "TagA%s", two);
        } else {
            at += sprintf(at, "KEYS%sOrder", one);
            made.key_at = (size_t)(at - made.text);
            at += sprintf(at, "%s%sUNIQ_KEY%s", KEY, two, one);
            made.unique_at = (size_t)(at - made.text) + sizeof UNIQUE - 1 - 12;
            at += sprintf(at, "%s%sWAIT%strue%s", UNIQUE, two, one, two);
        }
    made.length = (size_t)(at - made.text);
    return made;
}

static Template empty_template(size_t bytes_max, size_t messages) {
    Template made = {.bytes = calloc(1, bytes_max), .messages = messages};
    size_t *places = calloc(3 * (messages + 1), sizeof *places);
    if (!made.bytes || !places) die("out of memory");
    made.key_at = places;
    made.unique_at = places + messages;
    made.tag_at = places + 2 * messages;
    return made;
}

void template_free(Template *made) {
    free(made->bytes);
    free(made->key_at);
}

// Finishes a frame of which `header_end` and `end` are known.
static void finish(Template *made, char *header_end, char *end) {
    made->length = (size_t)(end - made->bytes);
    put_u32(made->bytes, (uint32_t)(made->length - 4));
    put_u32(made->bytes + 4, (uint32_t)(header_end - made->bytes - 8));
    char *opaque =
        memmem(made->bytes + 8, (size_t)(header_end - made->bytes - 8), "\"opaque\":", 9);
    made->opaque_at = (size_t)(opaque + 9 - made->bytes);
}

static char *put_body(char *at, int bytes) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (int index = 0; index < bytes; index++) *at++ = letters[(index * 7 + index / 64) % 36];
    return at;
}

static char *send_header(Template *made, int code, int sys_flag, const char *topic, int queue,
                         const char *properties) {
    char *at = made->bytes + 8;
    at = put_signer(at + sprintf(at, "{\"code\":%d,\"extFields\":{", code));
    at += sprintf(at,
                  "\"a\":\"ProducerGroupName\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\","
                  "\"e\":\"%d\",\"f\":\"%d\",\"g\":\"",
                  topic, queue, sys_flag);
    made->born_at = (size_t)(at - made->bytes);
    return at + sprintf(at,
                        "%s\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\","
                        "\"n\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
                        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
                        BORN, properties, code == 320 ? "true" : "false", OPAQUE_BASE);
}

static Template single(const Options *options, int sys_flag, const char *topic, int queue,
                       const char *more) {
    Template made = empty_template(HEADER_BYTES_MAX + (size_t)options->body_bytes, 1);
    Properties properties = properties_of(options->tags_first, "\\u0001", "\\u0002");
    strcat(properties.text, more);
    char *header_end = send_header(&made, 310, sys_flag, topic, queue, properties.text);
    char *text = strstr(made.bytes + 8, "\"i\":\"") + 5;
    made.key_at[0] = (size_t)(text - made.bytes) + properties.key_at;
    made.unique_at[0] = (size_t)(text - made.bytes) + properties.unique_at;
    made.tag_at[0] = (size_t)(text - made.bytes) + properties.tag_at;
    finish(&made, header_end, put_body(header_end, options->body_bytes));
    return made;
}

Template send_template(const Options *options, const char *topic, int queue) {
    return single(options, 0, topic, queue, "");
}

Template half_template(const Options *options, const char *topic, int queue) {
    return single(options, 4, topic, queue,
                  "TRAN_MSG\\u0001true\\u0002PGROUP\\u0001ProducerGroupName\\u0002");
}

Template batch_template(const Options *options, const char *topic, int queue) {
    size_t each = 22 + (size_t)options->body_bytes + PROPERTY_BYTES_MAX;
    Template made =
        empty_template(HEADER_BYTES_MAX + each * (size_t)options->batch, (size_t)options->batch);
    Properties properties = properties_of(options->tags_first, "\x01", "\x02");
    char *header_end = send_header(&made, 320, 0, topic, queue, "WAIT\\u0001true\\u0002");
    char *at = header_end;
    for (int index = 0; index < options->batch; index++) {
        size_t size = 22 + (size_t)options->body_bytes + properties.length;
        // Magic, body crc and flag stay 0: the broker fills them in.
        put_u32(at, (uint32_t)size);
        put_u32(at + 16, (uint32_t)options->body_bytes);
        char *length_at = put_body(at + 20, options->body_bytes);
        length_at[0] = (char)(properties.length >> 8);
        length_at[1] = (char)properties.length;
        memcpy(length_at + 2, properties.text, properties.length);
        size_t text = (size_t)(length_at + 2 - made.bytes);
        made.key_at[index] = text + properties.key_at;
        made.unique_at[index] = text + properties.unique_at;
        made.tag_at[index] = text + properties.tag_at;
        at += size;
    }
    finish(&made, header_end, at);
    return made;
}

Template pull_template(const Options *options, const char *topic, int queue, bool hold) {
    Template made = empty_template(HEADER_BYTES_MAX, 0);
    char *at = made.bytes + 8;  // sysFlag: 2 hold it until there is something, 4 has a subscription
    at = put_signer(at + sprintf(at, "{\"code\":11,\"extFields\":{"));
    at +=
        sprintf(at,
                "\"queueId\":\"%d\",\"maxMsgBytes\":\"2147483647\","
                "\"maxMsgNums\":\"%d\",\"sysFlag\":\"%d\",\"suspendTimeoutMillis\":\"15000\","
                "\"commitOffset\":\"0\",\"bname\":\"broker-a\",\"topic\":\"%s\",\"queueOffset\":\"",
                queue, options->batch, hold ? 6 : 4, topic);
    made.offset_at = (size_t)(at - made.bytes);
    at += sprintf(
        at,
        "\",\"expressionType\":\"TAG\",\"subscription\":\"*\","
        "\"subVersion\":\"1795253967227\",\"consumerGroup\":\"ConsumerGroupName\"},\"flag\":0,"
        "\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\","
        "\"version\":513}",
        OPAQUE_BASE);
    finish(&made, at, at);
    return made;
}

static void put_digits(char *at, int count, uint64_t value) {
    for (char *to = at + count; to > at; value /= 10) *--to = (char)('0' + value % 10);
}

static void put_hex(char *at, int count, uint64_t value) {
    for (char *to = at + count; to > at; value >>= 4) *--to = "0123456789ABCDEF"[value & 15];
}

size_t write_send(const Template *made, char *out, uint64_t number, const char born[13]) {
    memcpy(out, made->bytes, made->length);
    put_digits(out + made->opaque_at, 8, OPAQUE_BASE + number % OPAQUE_SPAN);
    memcpy(out + made->born_at, born, 13);
    for (size_t index = 0; index < made->messages; index++) {
        uint64_t message = number * made->messages + index;
        put_digits(out + made->key_at[index], 8, message);
        put_hex(out + made->unique_at[index], 12, message);
        out[made->tag_at[index]] = (char)('A' + (message & 1));
    }
    sign_first(out);
    return made->length;
}

size_t write_pull(const Template *made, char *out, uint64_t number, uint64_t offset) {
    char digits[24];
    int count = sprintf(digits, "%lu", offset);
    char *at = mempcpy(out, made->bytes, made->offset_at);
    at = mempcpy(at, digits, (size_t)count);
    memcpy(at, made->bytes + made->offset_at, made->length - made->offset_at);
    size_t length = made->length + (size_t)count;
    put_digits(out + made->opaque_at + count, 8, OPAQUE_BASE + number % OPAQUE_SPAN);
    put_u32(out, (uint32_t)(length - 4));
    put_u32(out + 4, (uint32_t)(length - 8));
    sign_first(out);
    return length;
}

size_t write_max_offset(char *out, const char *topic, int queue, uint64_t number) {
    char *at = put_signer(out + 8 + sprintf(out + 8, "{\"code\":30,\"extFields\":{"));
    at += sprintf(at,
                  "\"topic\":\"%s\",\"queueId\":\"%d\",\"committed\":\"false\","
                  "\"bname\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
                  "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
                  topic, queue, (int)(OPAQUE_BASE + number % OPAQUE_SPAN));
    put_u32(out, (uint32_t)(at - out - 4));
    put_u32(out + 4, (uint32_t)(at - out - 8));
    sign(out);
    return (size_t)(at - out);
}

bool next_frame(const char *in, size_t length, Frame *frame) {
    if (length < 8) return false;
    uint32_t after = read_u32(in), word = read_u32(in + 4);
    if (after > FRAME_BYTES_MAX || (word & 0xFFFFFF) + 4 > after)
        die("a frame of %u bytes came", after);
    if (length < (size_t)after + 4) return false;
    if (word >> 24) die("a reply with header codec %u came, JSON was asked for", word >> 24);
    *frame = (Frame){.header = in + 8,
                     .header_length = word,
                     .body = in + 8 + word,
                     .body_length = after - 4 - word,
                     .length = (size_t)after + 4};
    return true;
}

static int64_t field(const Frame *frame, const char *name, size_t length) {
    const char *found = memmem(frame->header, frame->header_length, name, length);
    return found ? strtoll(found + length, NULL, 10) : -1;
}
#define FIELD(frame, name) field(frame, name, sizeof(name) - 1)

Reply read_reply(const Frame *frame) {
    int64_t opaque = FIELD(frame, "\"opaque\":");
    Reply reply = {.code = FIELD(frame, "\"code\":"),
                   .queue = FIELD(frame, "\"queueId\":\""),
                   .offset = -1,
                   .next_offset = -1};
    if (opaque >= OPAQUE_BASE && FIELD(frame, "\"flag\":") == 1)
        reply.number = (uint64_t)(opaque - OPAQUE_BASE);
    if ((reply.offset = FIELD(frame, "\"queueOffset\":\"")) < 0) {
        reply.next_offset = FIELD(frame, "\"nextBeginOffset\":\"");
        reply.offset = FIELD(frame, "\"offset\":\"");
    }
    return reply;
}

const char *check_records(const Frame *frame, uint64_t offset, int count, int queue,
                          size_t body_bytes) {
    const char *at = frame->body, *end = at + frame->body_length;
    for (int index = 0; index < count; index++) {
        if (end - at < RECORD_FIXED_BYTES) return "fewer records than asked for";
        uint32_t size = read_u32(at);
        int magic = (int)read_u32(at + 4);
        if (size > end - at || size < RECORD_FIXED_BYTES + body_bytes)
            return "a record of a wrong size";
        if (magic != RECORD_MAGIC_V1 && magic != RECORD_MAGIC_V2)
            return "a record without its magic";
        if (read_u32(at + 12) != (uint32_t)queue) return "a record of another queue";
        if (read_u64(at + 20) != offset + (uint64_t)index) return "a record of another offset";
        if (read_u32(at + 84) != body_bytes) return "a body of a wrong size";
        at += size;
    }
    return at == end ? NULL : "bytes behind the last record";
}
