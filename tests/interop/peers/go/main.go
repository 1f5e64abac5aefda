// The Go peer: sends what its standard input lists, or prints what it receives, one JSON object a
// line.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var printing sync.Mutex

func main() {
	rlog.SetLogLevel("warn")
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if args[0] == "session" {
		return runSession(args[1])
	}
	namesrv, topic, group := args[1], args[2], args[3]
	switch args[0] {
	case "produce":
		return produce(namesrv, topic, group, false)
	case "batch":
		return produce(namesrv, topic, group, true)
	case "consume":
		return consume(namesrv, topic, group, args[4])
	}
	return fmt.Errorf("unknown command %s", args[0])
}

func produce(namesrv, topic, group string, batch bool) error {
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName(group),
		producer.WithRetry(2),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	messages, err := readMessages(topic)
	if err != nil {
		return err
	}
	if batch {
		result, err := sender.SendSync(context.Background(), messages...)
		if err != nil {
			return err
		}
		printSent(result)
		return sender.Shutdown()
	}
	for _, message := range messages {
		result, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		printSent(result)
	}
	return sender.Shutdown()
}

func consume(namesrv, topic, group, expression string) error {
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
	receive := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			printReceived(message)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := receiver.Subscribe(topic, selector, receive); err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	printLine(map[string]any{"event": "started"})
	io.Copy(io.Discard, os.Stdin)
	return receiver.Shutdown()
}

func readMessages(topic string) ([]*primitive.Message, error) {
	var messages []*primitive.Message
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		body, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil {
			return nil, err
		}
		message := primitive.NewMessage(topic, body).WithTag(fields[0])
		messages = append(messages, message.WithKeys([]string{fields[1]}))
	}
	return messages, lines.Err()
}

func printSent(result *primitive.SendResult) {
	printLine(sent(result))
}

func sent(result *primitive.SendResult) map[string]any {
	status := "SEND_OK"
	if result.Status != primitive.SendOK {
		status = fmt.Sprintf("status %d", result.Status)
	}
	return map[string]any{
		"status":      status,
		"msgId":       result.MsgID,
		"queueId":     result.MessageQueue.QueueId,
		"queueOffset": result.QueueOffset,
	}
}

func printReceived(message *primitive.MessageExt) {
	printLine(received(message))
}

func received(message *primitive.MessageExt) map[string]any {
	return map[string]any{
		"body":           base64.StdEncoding.EncodeToString(message.Body),
		"topic":          message.Topic,
		"tags":           message.GetTags(),
		"keys":           message.GetKeys(),
		"msgId":          message.MsgId,
		"queueId":        message.Queue.QueueId,
		"queueOffset":    message.QueueOffset,
		"reconsumeTimes": message.ReconsumeTimes,
		"at":             time.Now().UnixMilli(),
	}
}

func printLine(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}
