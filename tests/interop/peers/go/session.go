package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// session obeys commands from standard input, one a line, each answered by one line: consumers are
// opened and closed by name, messages sent. One process can hold many consumers.
type session struct {
	namesrv string
	members map[string]rocketmq.PushConsumer
	sender  rocketmq.Producer
	decider *transactions
}

func runSession(namesrv string) error {
	s := &session{namesrv: namesrv, members: map[string]rocketmq.PushConsumer{}}
	printLine(map[string]any{"event": "started"})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		fields := map[string]string{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			fields[key] = value
		}
		answer, err := s.obey(words[0], fields)
		if err != nil {
			printLine(map[string]any{"failed": err.Error()})
			continue
		}
		answer["done"] = words[0]
		printLine(answer)
	}
	for _, member := range s.members {
		member.Shutdown()
	}
	if s.sender != nil {
		s.sender.Shutdown()
	}
	if s.decider != nil {
		s.decider.sender.Shutdown()
	}
	return lines.Err()
}

func (s *session) obey(word string, fields map[string]string) (map[string]any, error) {
	switch word {
	case "open":
		return map[string]any{}, s.open(fields)
	case "close":
		member := s.members[fields["name"]]
		delete(s.members, fields["name"])
		return map[string]any{}, member.Shutdown()
	case "send":
		return s.send(fields)
	case "request":
		return s.request(fields)
	case "serve":
		return map[string]any{}, s.serve(fields)
	case "transact":
		return s.transact(fields)
	case "checks":
		return s.decider.checks(), nil
	}
	return nil, fmt.Errorf("unknown command %s", word)
}

func (s *session) transact(fields map[string]string) (map[string]any, error) {
	if s.decider == nil {
		decider, err := newTransactions(s.namesrv, fields["group"])
		if err != nil {
			return nil, err
		}
		s.decider = decider
	}
	return s.decider.send(fields)
}

func (s *session) open(fields map[string]string) error {
	options := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{s.namesrv})),
		consumer.WithGroupName(fields["group"]),
		consumer.WithInstance(fields["instance"]),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if fields["kind"] == "orderly" {
		options = append(options, consumer.WithConsumerOrder(true),
			consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	}
	if fields["kind"] == "broadcast" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if fields["retries"] != "" {
		options = append(options, consumer.WithMaxReconsumeTimes(int32(number(fields["retries"], ""))))
	}
	if fields["threads"] != "" {
		options = append(options, consumer.WithConsumeGoroutineNums(number(fields["threads"], "")))
	}
	member, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: fields["tags"]}
	if fields["sql"] != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: fields["sql"]}
	}
	failed := consumer.ConsumeRetryLater
	if fields["kind"] == "orderly" {
		failed = consumer.SuspendCurrentQueueAMoment
	}
	handle := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if handleMessage(fields["name"], messages[0]) {
			return consumer.ConsumeSuccess, nil
		}
		return failed, nil
	}
	for _, topic := range strings.Split(fields["topics"], ",") {
		if err := member.Subscribe(topic, selector, handle); err != nil {
			return err
		}
	}
	s.members[fields["name"]] = member
	return member.Start()
}

// handleMessage prints a message and takes as long as its body says; false if it says that it fails.
func handleMessage(name string, message *primitive.MessageExt) bool {
	line := received(message)
	line["consumer"] = name
	printLine(line)
	body := string(message.Body)
	if millis := number(body, "take="); millis > 0 {
		time.Sleep(time.Duration(millis) * time.Millisecond)
	}
	return int(message.ReconsumeTimes) >= number(body, "fail=")
}

// number returns the number behind a word of the text, 0 if the word is not there.
func number(text, word string) int {
	_, rest, found := strings.Cut(text, word)
	if !found {
		return 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	value, _ := strconv.Atoi(rest)
	return value
}

func (s *session) producer() (rocketmq.Producer, error) {
	if s.sender != nil {
		return s.sender, nil
	}
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{s.namesrv})),
		producer.WithGroupName("session-producer"),
	)
	if err != nil {
		return nil, err
	}
	if err := sender.Start(); err != nil {
		return nil, err
	}
	s.sender = sender
	return sender, nil
}

func (s *session) send(fields map[string]string) (map[string]any, error) {
	sender, err := s.producer()
	if err != nil {
		return nil, err
	}
	body, err := base64.StdEncoding.DecodeString(fields["body"])
	if err != nil {
		return nil, err
	}
	message := primitive.NewMessage(fields["topic"], body).WithTag(fields["tags"])
	message.WithKeys([]string{fields["keys"]})
	for key, value := range fields {
		if strings.HasPrefix(key, "p.") {
			message.WithProperty(key[2:], value)
		}
	}
	if fields["level"] != "" {
		message.WithDelayTimeLevel(number(fields["level"], ""))
	}
	result, err := sender.SendSync(context.Background(), message)
	if err != nil {
		return nil, err
	}
	return sent(result), nil
}
