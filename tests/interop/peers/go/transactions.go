package main

import (
	"context"
	"encoding/base64"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// transactions is a producer whose messages say themselves what is decided, at once and when asked.
type transactions struct {
	sender  rocketmq.TransactionProducer
	mutex   sync.Mutex
	checked []string
}

func newTransactions(namesrv, group string) (*transactions, error) {
	t := &transactions{checked: []string{}}
	sender, err := rocketmq.NewTransactionProducer(t,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName(group),
		producer.WithInstanceName(group),
	)
	if err != nil {
		return nil, err
	}
	t.sender = sender
	return t, sender.Start()
}

// send sends one message in a transaction; `local` and `later` are commit, rollback or unknown.
func (t *transactions) send(fields map[string]string) (map[string]any, error) {
	body, err := base64.StdEncoding.DecodeString(fields["body"])
	if err != nil {
		return nil, err
	}
	message := primitive.NewMessage(fields["topic"], body).WithTag("TagA")
	message.WithProperty("local", fields["local"])
	message.WithProperty("later", fields["later"])
	result, err := t.sender.SendMessageInTransaction(context.Background(), message)
	if err != nil {
		return nil, err
	}
	answer := sent(result.SendResult)
	answer["state"] = names[result.State]
	answer["transactionId"] = result.TransactionID
	return answer, nil
}

// checks returns the bodies that the broker has asked about, in their order.
func (t *transactions) checks() map[string]any {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return map[string]any{"checked": append([]string{}, t.checked...)}
}

// As Java spells them.
var names = map[primitive.LocalTransactionState]string{
	primitive.CommitMessageState:   "COMMIT_MESSAGE",
	primitive.RollbackMessageState: "ROLLBACK_MESSAGE",
	primitive.UnknowState:          "UNKNOW",
}

func (t *transactions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return state(message.GetProperty("local"))
}

func (t *transactions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	t.mutex.Lock()
	t.checked = append(t.checked, string(message.Body))
	t.mutex.Unlock()
	return state(message.GetProperty("later"))
}

func state(word string) primitive.LocalTransactionState {
	switch word {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}
