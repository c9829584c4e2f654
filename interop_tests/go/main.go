// Command goclients runs calls of Go Kafka clients that arrive as JSON lines on stdin and answers each with a JSON line.
// The request's "client" is franz or sarama; its "do" names the verb. `goclients members franz` hosts group members instead.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

type message struct {
	Partition     int32        `json:"partition"`
	Key           []byte       `json:"key"`
	Value         []byte       `json:"value"`
	Headers       [][2]*string `json:"headers"`
	Timestamp     *int64       `json:"timestamp"`
	Offset        int64        `json:"offset"`
	TimestampType int          `json:"timestamp_type"`
}

type request struct {
	Do         string             `json:"do"`
	Client     string             `json:"client"`
	Bootstrap  string             `json:"bootstrap"`
	Topic      string             `json:"topic"`
	Partition  int32              `json:"partition"`
	Codec      string             `json:"codec"`
	Acks       string             `json:"acks"`
	Idempotent bool               `json:"idempotent"`
	Committed  bool               `json:"read_committed"`
	Messages   []message          `json:"messages"`
	Start      int64              `json:"start"`
	Count      int                `json:"count"`
	Timestamp  int64              `json:"timestamp"`
	TimeoutMs  int64              `json:"timeout_ms"`
	Configs    map[string]*string `json:"configs"`
	Names      []string           `json:"names"`

	TransactionalID string        `json:"transactional_id"`
	Transactions    []transaction `json:"transactions"`
}

func (r *request) timeout() time.Duration {
	if r.TimeoutMs == 0 {
		return 20 * time.Second
	}
	return time.Duration(r.TimeoutMs) * time.Millisecond
}

type problem struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

type sent struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Code      int    `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
}

// maxRequestBytes lets a message that the broker must refuse leave the client.
const maxRequestBytes = 20 << 20

func problemOf(err error) *problem {
	found := &problem{Code: -1, Name: fmt.Sprintf("%T", err), Message: err.Error()}
	var franz *kerr.Error
	var code sarama.KError
	var topic *sarama.TopicError
	switch {
	case errors.As(err, &franz):
		found.Code, found.Name = int(franz.Code), franz.Message
	case errors.As(err, &topic):
		found.Code = int(topic.Err)
	case errors.As(err, &code):
		found.Code = int(code)
	}
	return found
}

func failed(err error) sent {
	p := problemOf(err)
	return sent{Offset: -1, Timestamp: -1, Code: p.Code, Message: p.Message}
}

type verb func(*request) (any, error)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "members" {
		serveMembers(os.Args[2])
		return
	}
	clients := map[string]map[string]verb{"franz": franzVerbs, "sarama": saramaVerbs}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(lines)
	for {
		var r request
		if err := decoder.Decode(&r); err != nil {
			return
		}
		do, known := clients[r.Client][r.Do]
		reply := map[string]any{}
		if !known {
			reply["error"] = &problem{Code: -1, Message: "no verb " + r.Client + "." + r.Do}
		} else if result, err := do(&r); err != nil {
			reply["error"] = problemOf(err)
		} else {
			reply["ok"] = result
		}
		if err := answers.Encode(reply); err != nil {
			return
		}
	}
}
