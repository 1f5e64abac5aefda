// NATS JetStream as a server and as a publisher, so that both are of the pinned versions.
//
//	natsbench serve --dir DIR
//	natsbench publish --port N --connections N --outstanding N --body BYTES --warmup S --seconds S
//
// The publisher speaks the same marks and prints the same JSON as our load generator.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const subjects = 4

func main() {
	if len(os.Args) < 2 {
		fail("serve or publish?")
	}
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2:])
	case "publish":
		publish(os.Args[2:])
	default:
		fail("serve or publish?")
	}
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", values...)
	os.Exit(1)
}

func serve(words []string) {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	dir := flags.String("dir", "", "where the streams are kept")
	flags.Parse(words)
	made, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: *dir, NoSigs: true,
	})
	if err != nil {
		fail("%v", err)
	}
	made.Start()
	if !made.ReadyForConnections(10 * time.Second) {
		fail("not ready after 10 s")
	}
	fmt.Println("serves on", made.Addr().String()[len("127.0.0.1:"):])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	made.Shutdown()
	made.WaitForShutdown()
}

type settings struct {
	port, connections, outstanding, body int
	warmup, seconds                      float64
}

type run struct {
	settings
	measuring, stopping atomic.Bool
	began               atomic.Int64 // UnixNano
	answers, errors     atomic.Int64
	mutex               sync.Mutex
	latencies           []time.Duration
	firstError          string
}

func publish(words []string) {
	made := &run{}
	flags := flag.NewFlagSet("publish", flag.ExitOnError)
	flags.IntVar(&made.port, "port", 0, "of the server")
	flags.IntVar(&made.connections, "connections", 1, "")
	flags.IntVar(&made.outstanding, "outstanding", 1, "of each connection")
	flags.IntVar(&made.body, "body", 1024, "bytes")
	flags.Float64Var(&made.warmup, "warmup", 1, "seconds")
	flags.Float64Var(&made.seconds, "seconds", 3, "measured")
	flags.Parse(words)
	made.measure()
}

func (r *run) connect() nats.JetStreamContext {
	connection, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", r.port))
	if err != nil {
		fail("%v", err)
	}
	stream, err := connection.JetStream(nats.PublishAsyncMaxPending(r.outstanding))
	if err != nil {
		fail("%v", err)
	}
	return stream
}

func (r *run) measure() {
	first := r.connect()
	config := &nats.StreamConfig{Name: "bench", Subjects: []string{"bench.*"}, Storage: nats.FileStorage}
	if _, err := first.AddStream(config); err != nil {
		fail("%v", err)
	}
	before, _ := first.StreamInfo("bench")
	var all sync.WaitGroup
	for index := 0; index < r.connections; index++ {
		all.Add(1)
		go func() { defer all.Done(); r.publishUntilStopped(r.connect()) }()
	}
	time.Sleep(time.Duration(r.warmup * float64(time.Second)))
	mark("begin")
	cpu, began := ownCPU(), time.Now()
	r.began.Store(began.UnixNano())
	r.measuring.Store(true)
	time.Sleep(time.Duration(r.seconds * float64(time.Second)))
	r.measuring.Store(false)
	seconds, cpuSpent, answers := time.Since(began).Seconds(), ownCPU()-cpu, r.answers.Load()
	mark("end")
	r.stopping.Store(true)
	all.Wait()
	after, err := first.StreamInfo("bench")
	if err != nil || after.State.Msgs < before.State.Msgs+uint64(answers) {
		r.fault(fmt.Sprintf("the stream holds fewer messages than were acknowledged: %v", err))
	}
	r.report(seconds, cpuSpent, answers)
}

type asked struct {
	future nats.PubAckFuture
	sent   time.Time
}

// One goroutine publishes, another takes the acknowledgements in the order of the messages.
func (r *run) publishUntilStopped(stream nats.JetStreamContext) {
	open, done := make(chan asked, r.outstanding), make(chan struct{})
	room := make(chan struct{}, r.outstanding)
	go func() { r.takeAnswers(open, room); close(done) }()
	body := make([]byte, r.body)
	for number := 0; !r.stopping.Load(); number++ {
		room <- struct{}{}
		sent := time.Now()
		future, err := stream.PublishAsync(fmt.Sprintf("bench.%d", number%subjects), body)
		if err != nil {
			fail("%v", err)
		}
		open <- asked{future, sent}
	}
	close(open)
	<-done
}

func (r *run) takeAnswers(open chan asked, room chan struct{}) {
	var latencies []time.Duration
	for each := range open {
		select {
		case <-each.future.Ok():
		case err := <-each.future.Err():
			r.fault(err.Error())
		case <-time.After(15 * time.Second):
			fail("no answer for 15 s")
		}
		<-room
		if r.measuring.Load() {
			r.answers.Add(1)
			if each.sent.UnixNano() >= r.began.Load() {
				latencies = append(latencies, time.Since(each.sent))
			}
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.latencies = append(r.latencies, latencies...)
}

func (r *run) fault(text string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.errors.Add(1) == 1 {
		r.firstError = text
	}
}

func mark(what string) {
	fmt.Println(what)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fail("nobody reads the marks")
	}
}

func ownCPU() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func (r *run) report(seconds, cpu float64, answers int64) {
	sort.Slice(r.latencies, func(a, b int) bool { return r.latencies[a] < r.latencies[b] })
	at := func(share float64) float64 {
		if len(r.latencies) == 0 {
			return 0
		}
		return float64(r.latencies[int(share*float64(len(r.latencies)-1))].Nanoseconds()) / 1e3
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"workload": "publish", "connections": r.connections, "outstanding": r.outstanding,
		"body_bytes": r.body, "seconds": seconds, "answers": answers, "messages": answers,
		"bytes_in": 0, "generator_cpu_s": cpu, "p50_us": at(0.5), "p99_us": at(0.99),
		"p999_us": at(0.999), "max_us": at(1), "errors": r.errors.Load(), "first_error": r.firstError,
	})
	if r.errors.Load() > 0 {
		os.Exit(1)
	}
}
