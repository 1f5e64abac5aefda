// An open loop: requests are due by the clock, whatever is answered. Before and after each load the
// best rate of a closed loop over the same connections is taken, for disks have good minutes and bad.
//
// Of each answer three ages are known: since the request was due, since its first byte was written,
// and since its last byte left our socket, which on one machine is when it came to the server's,
// unless that socket was full and dropped it: then TCP sends it again, 200 ms later and more. When
// it came is not known then, and such ages are kept apart.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"
#include "net.h"
#include "run.h"

enum {
    OUT_BYTES = 64 << 10,  // put together for one write
    IN_BYTES = 256 << 10,
    EVENTS_MAX = 256,
    RING_BYTES_MAX = 32 << 20,  // of all requests without an answer that are noted
    PAUSE_NS = 200000,          // between two looks at the clock
    LOOK_NS = 2000000,          // between two looks at answers, and at what has left a socket
    RESENT_NS = 50000000,       // between two looks at what was sent again
    LATE_NS = 100000000,        // an answer after which it is looked at once more
    DRAIN_NS_MAX = 20 * 1000000000L,
};

typedef struct {
    uint64_t due_ns, first_ns, came_ns, end;  // `end` counts the bytes of the connection
    bool answered;
} Request;

typedef struct {
    int fd;
    bool blocked;           // until the socket takes more
    Request *ring;          // by number of the request within the connection
    uint64_t asked, oldest; // ... of the next one, and of the first without an answer
    uint64_t stamped, come; // ... of the first whose time is not known yet
    uint64_t first_asked;   // before this phase
    uint64_t put, written;  // bytes
    uint64_t looked_ns;
    uint64_t resent_looked_ns, resent_ns; // ... when bytes had been sent again
    uint32_t resent;                      // segments
    char *in, *out;
    size_t in_length, out_length, out_done;
} Producer;

typedef struct {
    uint64_t due, sent, stored, timed_out, disk_busy, refused;  // the last one: by other words
    uint64_t resent;  // of the stored ones, by connections that sent bytes again meanwhile
    Histogram since_due, since_first, since_came, refused_since_came, resent_since_came;
    uint64_t blind_ns;  // the longest between two looks at all sockets
    double seconds, cpu_s;
} Phase;

typedef struct {
    const Options *options;
    Template *templates;
    Producer *producers;
    uint64_t ring;  // requests of a connection, a power of two
    int epoll;
    uint64_t open;
    bool draining, counting;
    uint64_t looked_ns;  // at all sockets
    Phase phase;
    char born[14];
} Offer;

#define BEST_SHARE 0.4  // of the time of a load, for a best rate

// Notes whether the connection has sent bytes again since the last look.
static void look_at_resent(Producer *producer, uint64_t time_ns) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(producer->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
        die("TCP_INFO: %s", strerror(errno));
    if (info.tcpi_total_retrans != producer->resent) producer->resent_ns = time_ns;
    producer->resent = info.tcpi_total_retrans;
    producer->resent_looked_ns = time_ns;
}

static size_t read_answer(Offer *offer, Producer *producer, const char *in, size_t length,
                          uint64_t time_ns) {
    Frame frame;
    if (!next_frame(in, length, &frame)) return 0;
    Reply reply = read_reply(&frame);
    uint64_t number = reply.number;
    Request *request = &producer->ring[number & (offer->ring - 1)];
    if (number < producer->oldest || number >= producer->asked || request->answered)
        die("an answer to nothing: %.*s", (int)frame.header_length, frame.header);
    request->answered = true;
    offer->open--;
    while (producer->oldest < producer->asked &&
           producer->ring[producer->oldest & (offer->ring - 1)].answered)
        producer->oldest++;
    Phase *phase = &offer->phase;
    uint64_t came_ns = request->came_ns ? request->came_ns : producer->looked_ns;
    if (came_ns < request->first_ns) came_ns = request->first_ns;
    if (reply.code == 0) {
        phase->stored += offer->counting;
        histogram_add(&phase->since_due, time_ns - request->due_ns);
        histogram_add(&phase->since_first, time_ns - request->first_ns);
        if (time_ns - came_ns > LATE_NS && producer->resent_looked_ns < time_ns)
            look_at_resent(producer, time_ns);
        bool resent = came_ns < producer->resent_ns;
        phase->resent += resent && offer->counting;
        histogram_add(resent ? &phase->resent_since_came : &phase->since_came, time_ns - came_ns);
        return frame.length;
    }
    bool timed_out = memmem(frame.header, frame.header_length, "[TIMEOUT_CLEAN_QUEUE]", 21);
    bool busy = memmem(frame.header, frame.header_length, "[PCBUSY_CLEAN_QUEUE]", 20);
    if (reply.code != 2) die("refused: %.*s", (int)frame.header_length, frame.header);
    *(timed_out ? &phase->timed_out : busy ? &phase->disk_busy : &phase->refused) += 1;
    histogram_add(&phase->refused_since_came, time_ns - came_ns);
    return frame.length;
}

static void receive(Offer *offer, Producer *producer) {
    for (;;) {
        size_t room = IN_BYTES - producer->in_length;
        ssize_t got = read(producer->fd, producer->in + producer->in_length, room);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) die("the server closed the connection");
        producer->in_length += (size_t)got;
        uint64_t time_ns = now_ns();
        size_t at = 0, length;
        while ((length = read_answer(offer, producer, producer->in + at, producer->in_length - at,
                                     time_ns)))
            at += length;
        producer->in_length -= at;
        memmove(producer->in, producer->in + at, producer->in_length);
        if ((size_t)got < room) return;
    }
}

// Notes which requests have left the socket; they had not at the look before.
static void look(Offer *offer, Producer *producer, uint64_t time_ns) {
    int unsent = 0;
    if (ioctl(producer->fd, SIOCOUTQNSD, &unsent)) die("SIOCOUTQNSD: %s", strerror(errno));
    uint64_t left = producer->written - (uint64_t)unsent;
    for (; producer->come < producer->stamped; producer->come++) {
        Request *request = &producer->ring[producer->come & (offer->ring - 1)];
        if (request->end > left) break;
        request->came_ns =
            request->first_ns > producer->looked_ns ? request->first_ns : producer->looked_ns;
    }
    producer->looked_ns = time_ns;
    if (time_ns - producer->resent_looked_ns >= RESENT_NS) look_at_resent(producer, time_ns);
}

static void write_out(Offer *offer, Producer *producer, uint64_t time_ns) {
    size_t left = producer->out_length - producer->out_done;
    if (!left || producer->blocked) return;
    ssize_t written = write(producer->fd, producer->out + producer->out_done, left);
    if (written < 0 && errno != EAGAIN) die("the server takes no more: %s", strerror(errno));
    producer->blocked = written < (ssize_t)left;
    if (written <= 0) return;
    uint64_t mask = offer->ring - 1;
    producer->out_done += (size_t)written;
    producer->written += (uint64_t)written;
    for (; producer->stamped < producer->asked; producer->stamped++) {
        Request *request = &producer->ring[producer->stamped & mask];
        uint64_t begin = producer->stamped ? producer->ring[(producer->stamped - 1) & mask].end : 0;
        if (begin >= producer->written) break;
        request->first_ns = time_ns;
    }
}

// Puts requests together that are due, and writes what the socket takes. `allowed` is how many of
// this phase may be asked, `interval_ns` lies between two of them, 0 in a closed loop.
static void send_due(Offer *offer, Producer *producer, uint64_t allowed, uint64_t began_ns,
                     double interval_ns, uint64_t time_ns) {
    const Options *options = offer->options;
    for (;;) {
        if (producer->out_done == producer->out_length)
            producer->out_done = producer->out_length = 0;
        while (!producer->out_done && producer->asked - producer->first_asked < allowed &&
               producer->asked - producer->oldest < offer->ring - 1) {
            const Template *made = &offer->templates[producer->asked % (uint64_t)options->queues];
            if (producer->out_length + made->length > OUT_BYTES) break;
            uint64_t nth = producer->asked - producer->first_asked;
            uint64_t number = producer->asked++;
            producer->out_length +=
                write_send(made, producer->out + producer->out_length, number, offer->born);
            producer->put += made->length;
            producer->ring[number & (offer->ring - 1)] =
                (Request){.due_ns = interval_ns > 0
                                        ? began_ns + (uint64_t)((double)nth * interval_ns)
                                        : time_ns,
                          .end = producer->put};
            offer->open++;
            offer->phase.sent += offer->counting;
        }
        if (producer->out_done == producer->out_length || producer->blocked) return;
        write_out(offer, producer, time_ns);
    }
}

// Takes what has been answered, after `pause_ns` at the latest.
static void take_answers(Offer *offer, long pause_ns) {
    struct epoll_event events[EVENTS_MAX];
    struct timespec pause = {.tv_nsec = pause_ns};
    int count = epoll_pwait2(offer->epoll, events, EVENTS_MAX, &pause, NULL);
    for (int index = 0; index < count; index++) {
        Producer *producer = events[index].data.ptr;
        if (events[index].events & EPOLLOUT) producer->blocked = false;
        if (events[index].events & ~(uint32_t)EPOLLOUT) receive(offer, producer);
    }
    uint64_t time_ns = now_ns();
    if (time_ns - offer->looked_ns < LOOK_NS) return;
    uint64_t blind_ns = offer->looked_ns ? time_ns - offer->looked_ns : 0;
    if (blind_ns > offer->phase.blind_ns) offer->phase.blind_ns = blind_ns;
    offer->looked_ns = time_ns;
    for (int index = 0; index < offer->options->connections; index++)
        look(offer, &offer->producers[index], time_ns);
}

static void pass(Offer *offer, uint64_t began_ns, double interval_ns) {
    const Options *options = offer->options;
    snprintf(offer->born, sizeof offer->born, "%013lu", wall_ms());
    for (int index = 0; index < options->connections; index++) {
        Producer *producer = &offer->producers[index];
        uint64_t time_ns = now_ns();
        if (time_ns - offer->looked_ns >= LOOK_NS) take_answers(offer, 0);
        uint64_t allowed = producer->asked - producer->first_asked;
        if (!offer->draining && interval_ns > 0)
            allowed = (uint64_t)((double)(time_ns - began_ns) / interval_ns) + 1;
        else if (!offer->draining)
            allowed = producer->oldest + (uint64_t)options->outstanding - producer->first_asked;
        send_due(offer, producer, allowed, began_ns, interval_ns, time_ns);
    }
    take_answers(offer, PAUSE_NS);
}

// Runs one phase: `rate` requests a second, 0: as many as may be open. Times are in seconds.
static double run_phase(Offer *offer, const char *name, double rate, double warm_s, double seconds) {
    const Options *options = offer->options;
    memset(&offer->phase, 0, sizeof offer->phase);
    for (int index = 0; index < options->connections; index++)
        offer->producers[index].first_asked = offer->producers[index].asked;
    uint64_t began_ns = now_ns();
    double interval_ns = rate > 0 ? 1e9 * options->connections / rate : 0;
    offer->draining = offer->counting = false;
    while (now_ns() - began_ns < (uint64_t)(warm_s * 1e9)) pass(offer, began_ns, interval_ns);
    memset(&offer->phase, 0, sizeof offer->phase);
    mark(options, "begin");
    double cpu_s = own_cpu_seconds();
    uint64_t counts_ns = now_ns();
    if (rate > 0) began_ns = counts_ns;
    offer->counting = true;
    while (now_ns() - counts_ns < (uint64_t)(seconds * 1e9)) pass(offer, began_ns, interval_ns);
    Phase *phase = &offer->phase;
    phase->seconds = (double)(now_ns() - counts_ns) / 1e9;
    phase->cpu_s = own_cpu_seconds() - cpu_s;
    phase->due = rate > 0 ? (uint64_t)(rate * phase->seconds) : phase->sent;
    offer->draining = true;
    offer->counting = false;
    mark(options, "end");
    uint64_t ended_ns = now_ns();
    while (offer->open && now_ns() - ended_ns < DRAIN_NS_MAX) pass(offer, began_ns, interval_ns);
    if (offer->open) die("%s: %lu requests have no answer", name, offer->open);
    const Histogram *ages[] = {&phase->since_due, &phase->since_first, &phase->since_came,
                               &phase->refused_since_came, &phase->resent_since_came};
    static const char *const names[] = {"due", "first", "came", "refused", "resent"};
    printf("{\"phase\":\"%s\",\"offered\":%.1f,\"seconds\":%.6f,\"due\":%lu,\"sent\":%lu,"
           "\"stored\":%lu,\"timed_out\":%lu,\"disk_busy\":%lu,\"refused\":%lu,"
           "\"generator_cpu_s\":%.6f,\"blind_ms\":%.3f,\"resent\":%lu",
           name, rate, phase->seconds, phase->due, phase->sent, phase->stored, phase->timed_out,
           phase->disk_busy, phase->refused, phase->cpu_s,
           (double)phase->blind_ns / 1e6, phase->resent);
    for (int index = 0; index < 5; index++)
        printf(",\"%s_ms\":[%.3f,%.3f,%.3f]", names[index],
               (double)histogram_at(ages[index], 0.5) / 1e6,
               (double)histogram_at(ages[index], 0.99) / 1e6, (double)ages[index]->max / 1e6);
    puts("}");
    fflush(stdout);
    return (double)phase->stored / phase->seconds;
}

static void open_producers(Offer *offer) {
    const Options *options = offer->options;
    for (int index = 0; index < options->connections; index++) {
        Producer *producer = &offer->producers[index];
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = producer};
        producer->fd = connect_to(options->port);
        make_nonblocking(producer->fd);
        producer->ring = calloc(offer->ring, sizeof(Request));
        producer->in = malloc(IN_BYTES);
        producer->out = malloc(OUT_BYTES);
        if (!producer->ring || !producer->in || !producer->out) die("out of memory");
        if (epoll_ctl(offer->epoll, EPOLL_CTL_ADD, producer->fd, &event)) die("epoll");
    }
}

void run_open_loop(const Options *options) {
    Offer offer = {.options = options,
                   .templates = calloc((size_t)options->queues, sizeof(Template)),
                   .producers = calloc((size_t)options->connections, sizeof(Producer)),
                   .ring = 1024,
                   .epoll = epoll_create1(EPOLL_CLOEXEC)};
    if (!offer.templates || !offer.producers || offer.epoll < 0) die("out of memory");
    while (offer.ring * 2 * (uint64_t)options->connections * sizeof(Request) <= RING_BYTES_MAX)
        offer.ring *= 2;
    for (int queue = 0; queue < options->queues; queue++)
        offer.templates[queue] = send_template(options, options->topic, queue);
    open_producers(&offer);
    const char *at = options->multiples;
    for (char *end; *at; at = *end ? end + 1 : end) {
        char name[32];
        double times = strtod(at, &end);
        if (end == at || times <= 0) die("--multiples is %s, numbers are meant", options->multiples);
        double best = run_phase(&offer, "best", 0, options->warmup_s, options->seconds * BEST_SHARE);
        snprintf(name, sizeof name, "%g", times);
        run_phase(&offer, name, times * best, 0, options->seconds);
    }
    run_phase(&offer, "best", 0, options->warmup_s, options->seconds * BEST_SHARE);
    exit(0);
}
