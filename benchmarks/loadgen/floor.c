// A server that answers as fast as C can and stores nothing, so what is measured is the generator;
// with --log it writes what arrives to a file, as it is: what the kernel takes for all of it. With
// --spread-mib pulls are answered out of a file in the page cache, where the records of all queues
// lie one behind the other as in a broker's log; with --gather without a copy, by writev.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "frames.h"
#include "net.h"
#include "run.h"

enum {
    CONNECTIONS_MAX = 2048,
    BUFFER_BYTES = 8 << 20,
    READ_BYTES = 256 << 10,  // of a socket at once, so that the next read finds them in the cache
    QUEUES_MAX = 4096,
    PULL_END = 1 << 20,
    RECORD_BYTES = 1300,
    PARTS_MAX = 1024  // of one writev
};

typedef struct {
    int fd;
    char *in, *out;
    size_t in_length, out_length, out_done;
    struct iovec parts[PARTS_MAX];  // with --gather: what is sent, of `out` and of the records
    int parts_count;
    size_t out_parted;  // so much of `out` is in the parts
} Client;

typedef struct {
    const Options *options;
    int epoll;
    uint64_t ends[QUEUES_MAX];  // by topic number and queue
    char *records;              // of a pull reply; queue and offsets are filled in
    uint64_t spread_end;        // of each queue, whose records lie in `records`; 0: they do not
    int log;                    // negative: nothing is stored
    off_t log_at;
} Floor;

// The number behind `name` in the header; a request comes from our own generator.
static uint64_t number_of(const Frame *frame, const char *name) {
    const char *found = memmem(frame->header, frame->header_length, name, strlen(name));
    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

// Tells topics apart by the digit that ends their name.
static uint32_t queue_index(const Frame *frame, const char *field, uint32_t queue) {
    const char *name = memmem(frame->header, frame->header_length, field, strlen(field));
    const char *end = name ? memchr(name + strlen(field), '"', 200) : NULL;
    uint32_t topic = end && end[-1] >= '0' && end[-1] <= '9' ? (uint32_t)(end[-1] - '0') + 1 : 0;
    return (topic * 64 + queue) % QUEUES_MAX;
}

static char *spread_record(Floor *floor, uint64_t queue, uint64_t offset) {
    return floor->records + (offset * (uint64_t)floor->options->queues + queue) * RECORD_BYTES;
}

static void part(Client *client, void *begin, size_t length) {
    if (client->parts_count == PARTS_MAX) die("too many pieces");
    client->parts[client->parts_count++] = (struct iovec){.iov_base = begin, .iov_len = length};
}

// All of `out` that is in no part yet becomes one.
static void part_out(Client *client, size_t length) {
    if (length > client->out_parted)
        part(client, client->out + client->out_parted, length - client->out_parted);
    client->out_parted = length;
}

static size_t put_reply(char *out, const char *fields, uint64_t opaque, const char *body,
                        size_t body_length) {
    int length =
        sprintf(out + 8,
                "{\"code\":0,\"extFields\":{%s},\"flag\":1,\"language\":\"C\",\"opaque\":%lu,"
                "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
                fields, opaque);
    memcpy(out + 8 + length, body, body_length);
    put_u32(out, (uint32_t)((size_t)length + 4 + body_length));
    put_u32(out + 4, (uint32_t)length);
    return (size_t)length + 8 + body_length;
}

// Records that are where they are: copied behind the header, or parts of what is sent.
static size_t answer_spread(Floor *floor, Client *client, const char *fields, uint64_t opaque,
                            uint64_t queue, uint64_t offset, uint64_t count) {
    char *out = client->out + client->out_length;
    size_t head = put_reply(out, fields, opaque, "", 0), records = count * RECORD_BYTES;
    put_u32(out, (uint32_t)(head - 4 + records));
    if (floor->options->gather) part_out(client, client->out_length + head);
    for (uint64_t index = 0; index < count; index++) {
        char *record = spread_record(floor, queue, offset + index);
        if (floor->options->gather)
            part(client, record, RECORD_BYTES);
        else
            memcpy(out + head + index * RECORD_BYTES, record, RECORD_BYTES);
    }
    return floor->options->gather ? head : head + records;
}

static size_t answer_pull(Floor *floor, Client *client, const Frame *frame, uint64_t opaque) {
    char fields[256], *out = client->out + client->out_length;
    uint64_t offset = number_of(frame, "\"queueOffset\":\""),
             queue = number_of(frame, "\"queueId\":\"");
    uint64_t count = number_of(frame, "\"maxMsgNums\":\"");
    if (floor->spread_end) {
        if (offset + count > floor->spread_end) die("there is no offset %lu", offset);
        sprintf(fields, "\"nextBeginOffset\":\"%lu\",\"minOffset\":\"0\",\"maxOffset\":\"%lu\"",
                offset + count, floor->spread_end);
        return answer_spread(floor, client, fields, opaque, queue, offset, count);
    }
    for (uint64_t index = 0; index < count; index++) {
        put_u32(floor->records + index * RECORD_BYTES + 12, (uint32_t)queue);
        put_u64(floor->records + index * RECORD_BYTES + 20, offset + index);
    }
    sprintf(fields, "\"nextBeginOffset\":\"%lu\",\"minOffset\":\"0\",\"maxOffset\":\"%d\"",
            offset + count, PULL_END);
    return put_reply(out, fields, opaque, floor->records, count * RECORD_BYTES);
}

static size_t answer(Floor *floor, Client *client, const Frame *frame) {
    char *out = client->out + client->out_length;
    uint64_t code = number_of(frame, "\"code\":"), opaque = number_of(frame, "\"opaque\":");
    char fields[256];
    if (code == 11) return answer_pull(floor, client, frame, opaque);
    if (code == 30) {
        uint32_t asked = (uint32_t)number_of(frame, "\"queueId\":\"");
        sprintf(fields, "\"offset\":\"%lu\"",
                floor->ends[queue_index(frame, "\"topic\":\"", asked)]);
        return put_reply(out, fields, opaque, "", 0);
    }
    uint32_t queue = (uint32_t)number_of(frame, "\"e\":\"");
    uint64_t *end = &floor->ends[queue_index(frame, "\"b\":\"", queue)];
    sprintf(
        fields,
        "\"MSG_REGION\":\"DefaultRegion\",\"TRACE_ON\":\"true\",\"msgId\":\"7F0000010000%020lu\","
        "\"queueId\":\"%u\",\"queueOffset\":\"%lu\",\"transactionId\":"
        "\"7F0000010A2B18B4AAC2000000000000\"",
        *end, queue, *end);
    *end += code == 320 ? (uint64_t)floor->options->batch : 1;
    return put_reply(out, fields, opaque, "", 0);
}

static void wait_writable(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    poll(&ready, 1, -1);
}

static void flush_parts(Client *client) {
    struct iovec *at = client->parts, *end = at + client->parts_count;
    while (at < end) {
        ssize_t written = writev(client->fd, at, (int)(end - at));
        if (written < 0 && errno == EAGAIN) {
            wait_writable(client->fd);
            continue;
        }
        if (written < 0) break;  // as below
        while (at < end && (size_t)written >= at->iov_len) written -= (ssize_t)(at++)->iov_len;
        if (at < end && written) {
            at->iov_base = (char *)at->iov_base + written;
            at->iov_len -= (size_t)written;
        }
    }
    client->parts_count = 0;
    client->out_parted = client->out_length = 0;
}

static void flush_client(Client *client) {
    while (client->out_done < client->out_length) {
        ssize_t written = write(client->fd, client->out + client->out_done,
                                client->out_length - client->out_done);
        if (written < 0 && errno == EAGAIN) {
            wait_writable(client->fd);
            continue;
        }
        if (written < 0) break;  // the peer has gone: its next read says so
        client->out_done += (size_t)written;
    }
    client->out_done = client->out_length = 0;
}

// Space for the log is allocated before, as a broker's is, and unwritten.
static void open_log(Floor *floor) {
    const Options *options = floor->options;
    floor->log = -1;
    if (!options->log) return;
    floor->log = open(options->log, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (floor->log < 0 || posix_fallocate(floor->log, 0, (off_t)options->log_mib << 20))
        die("%s: %s", options->log, strerror(errno));
}

// Begins anew at the end of the log, in pages that are in memory then.
static void store(Floor *floor, const char *data, size_t length) {
    if (floor->log_at + (off_t)length > (off_t)floor->options->log_mib << 20) floor->log_at = 0;
    while (length) {
        ssize_t written = pwrite(floor->log, data, length, floor->log_at);
        if (written < 0) die("%s: %s", floor->options->log, strerror(errno));
        data += written;
        length -= (size_t)written;
        floor->log_at += written;
    }
}

static void serve_client(Floor *floor, Client *client) {
    size_t room = BUFFER_BYTES - client->in_length;
    ssize_t got =
        read(client->fd, client->in + client->in_length, room < READ_BYTES ? room : READ_BYTES);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        close(client->fd);
        free(client->in);
        free(client->out);
        free(client);
        return;
    }
    if (floor->log >= 0) store(floor, client->in + client->in_length, (size_t)got);
    client->in_length += (size_t)got;
    size_t at = 0;
    Frame frame;
    while (next_frame(client->in + at, client->in_length - at, &frame)) {
        if (client->out_length + 2048 + 1024 * RECORD_BYTES > BUFFER_BYTES)
            die("too many open requests");
        if (client->parts_count > PARTS_MAX / 2) {
            part_out(client, client->out_length);
            flush_parts(client);
        }
        client->out_length += answer(floor, client, &frame);
        at += frame.length;
    }
    client->in_length -= at;
    memmove(client->in, client->in + at, client->in_length);
    if (floor->options->gather) {
        part_out(client, client->out_length);
        flush_parts(client);
    } else {
        flush_client(client);
    }
}

static void accept_client(Floor *floor, int listener) {
    Client *client = calloc(1, sizeof *client);
    if (!client) die("out of memory");
    client->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client->fd < 0) die("accept: %s", strerror(errno));
    client->in = malloc(BUFFER_BYTES);
    client->out = malloc(BUFFER_BYTES);
    if (!client->in || !client->out) die("out of memory");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    epoll_ctl(floor->epoll, EPOLL_CTL_ADD, client->fd, &event);
}

static void put_record(const Floor *floor, char *record, uint64_t queue, uint64_t offset) {
    put_u32(record, RECORD_BYTES);
    put_u32(record + 4, 0xDAA320A7);
    put_u32(record + 12, (uint32_t)queue);
    put_u64(record + 20, offset);
    put_u32(record + 84, (uint32_t)floor->options->body_bytes);
}

// A file of which nobody has heard, whose pages are in memory.
static void spread_records(Floor *floor) {
    size_t size = (size_t)floor->options->spread_mib << 20, queues = (size_t)floor->options->queues;
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size)) die("no space for records: %s", strerror(errno));
    floor->records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (floor->records == MAP_FAILED) die("no space for records: %s", strerror(errno));
    floor->spread_end = size / RECORD_BYTES / queues;
    for (uint64_t offset = 0; offset < floor->spread_end; offset++)
        for (uint64_t queue = 0; queue < queues; queue++)
            put_record(floor, spread_record(floor, queue, offset), queue, offset);
    for (int index = 0; index < QUEUES_MAX; index++) floor->ends[index] = floor->spread_end;
}

void run_floor(const Options *options) {
    static Floor floor;
    struct epoll_event events[64], listening = {.events = EPOLLIN};
    int port = options->port, listener = listen_on(&port);
    floor.options = options;
    floor.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < QUEUES_MAX; index++) floor.ends[index] = PULL_END;
    if (options->spread_mib) {
        spread_records(&floor);
    } else {
        floor.records = calloc(1024, RECORD_BYTES);
        for (int index = 0; index < 1024; index++)
            put_record(&floor, floor.records + index * RECORD_BYTES, 0, 0);
    }
    open_log(&floor);
    epoll_ctl(floor.epoll, EPOLL_CTL_ADD, listener, &listening);
    printf("serves on %d\n", port);
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(floor.epoll, events, 64, -1);
        for (int index = 0; index < count; index++)
            if (events[index].data.ptr)
                serve_client(&floor, events[index].data.ptr);
            else
                accept_client(&floor, listener);
    }
}
