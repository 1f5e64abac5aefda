package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// request asks by a message and waits for the reply.
func (s *session) request(fields map[string]string) (map[string]any, error) {
	sender, err := s.producer()
	if err != nil {
		return nil, err
	}
	body, err := base64.StdEncoding.DecodeString(fields["body"])
	if err != nil {
		return nil, err
	}
	timeout, err := strconv.Atoi(fields["timeout"])
	if err != nil {
		return nil, err
	}
	message := primitive.NewMessage(fields["topic"], body)
	wait := time.Duration(timeout) * time.Millisecond
	reply, err := sender.Request(context.Background(), wait, message)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"topic": reply.Topic,
		"tags":  reply.GetTags(),
		"body":  base64.StdEncoding.EncodeToString(reply.Body),
	}, nil
}

// serve replies to all requests of a topic.
func (s *session) serve(fields map[string]string) error {
	sender, err := s.producer()
	if err != nil {
		return err
	}
	replier, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{s.namesrv})),
		consumer.WithGroupName(fields["group"]),
		consumer.WithInstance("replier"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	answer := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			reply, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				reply.Body = append([]byte("go:"), message.Body...) // version 2.1.2 leaves it out
				_, err = sender.SendSync(ctx, reply)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := replier.Subscribe(fields["topic"], consumer.MessageSelector{}, answer); err != nil {
		return err
	}
	if err := replier.Start(); err != nil {
		return err
	}
	s.members["replier"] = replier
	return nil
}
