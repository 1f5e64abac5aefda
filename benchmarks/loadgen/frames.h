// RocketMQ's remoting frames as its Java client writes them (JSON headers), and their replies.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

enum {
    FRAME_BYTES_MAX = 64 << 20,
    OPAQUE_BASE = 10000000,  // every opaque has eight digits, so that a template has a place for it
    OPAQUE_SPAN = 80000000,
};

// A request of one queue that lacks what differs from message to message.
typedef struct {
    char *bytes;
    size_t length;
    size_t opaque_at, born_at;
    size_t offset_at;  // of a pull: where its digits go in
    size_t messages;   // whose keys and tags are set for each of them
    size_t *key_at, *unique_at, *tag_at;
} Template;

Template send_template(const Options *options, const char *topic, int queue);
Template half_template(const Options *options, const char *topic, int queue);
Template batch_template(const Options *options, const char *topic, int queue);
Template pull_template(const Options *options, const char *topic, int queue, bool hold);
void template_free(Template *made);

// Copies the request to `out` and fills in what differs; returns its length.
size_t write_send(const Template *made, char *out, uint64_t number, const char born[13]);
size_t write_pull(const Template *made, char *out, uint64_t number, uint64_t offset);
// Asks for the end of a queue (GET_MAX_OFFSET) and returns the length of the request.
size_t write_max_offset(char *out, const char *topic, int queue, uint64_t number);

typedef struct {
    const char *header;
    size_t header_length;
    const char *body;
    size_t body_length;
    size_t length;  // of the whole frame
} Frame;

// False while `length` bytes do not hold a whole frame.
bool next_frame(const char *in, size_t length, Frame *frame);

typedef struct {
    int64_t code;
    uint64_t number;      // 0 when the frame is no reply
    int64_t queue;        // -1 where the reply has none, as for the two below
    int64_t offset;       // queueOffset, or offset
    int64_t next_offset;  // nextBeginOffset
} Reply;

Reply read_reply(const Frame *frame);

// Checks that a pull's body holds exactly `count` whole records with consecutive offsets.
// Returns NULL or what is wrong.
const char *check_records(const Frame *frame, uint64_t offset, int count, int queue,
                          size_t body_bytes);
