package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

// Group members: orders (join, leave) arrive as JSON lines on stdin, and what happens to each member leaves as JSON
// lines on stdout. A member commits each batch before it asks for the next.

type place struct {
	topic     string
	partition int32
}

type order struct {
	Do        string            `json:"do"`
	Member    string            `json:"member"`
	Bootstrap string            `json:"bootstrap"`
	Group     string            `json:"group"`
	Topics    []string          `json:"topics"`
	Pattern   *string           `json:"pattern"`
	Config    map[string]string `json:"config"`
}

func (o *order) duration(name string) time.Duration {
	value, err := time.ParseDuration(o.Config[name] + "ms")
	if err != nil {
		panic(err)
	}
	return value
}

var (
	eventLock sync.Mutex
	started   = time.Now()
)

type reporter struct {
	member string
	last   string
}

func (r *reporter) tell(event string, facts map[string]any) {
	line := map[string]any{"member": r.member, "event": event, "at": time.Since(started).Seconds()}
	for name, value := range facts {
		line[name] = value
	}
	raw, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	eventLock.Lock()
	defer eventLock.Unlock()
	fmt.Println(string(raw))
}

func pairs(places []place) [][]any {
	listed := make([][]any, 0, len(places))
	for _, p := range places {
		listed = append(listed, []any{p.topic, p.partition})
	}
	return listed
}

func (r *reporter) assignment(places []place) {
	sort.Slice(places, func(i, j int) bool {
		return places[i].topic < places[j].topic || places[i].topic == places[j].topic && places[i].partition < places[j].partition
	})
	if now := fmt.Sprint(places); now != r.last {
		r.last = now
		r.tell("assignment", map[string]any{"places": pairs(places)})
	}
}

func (r *reporter) record(topic string, partition int32, offset int64, value []byte) {
	r.tell("record", map[string]any{"topic": topic, "partition": partition, "offset": offset, "value": string(value)})
}

func (r *reporter) committed(offsets map[place]int64) {
	listed := make([][]any, 0, len(offsets))
	for p, offset := range offsets {
		listed = append(listed, []any{p.topic, p.partition, offset})
	}
	r.tell("committed", map[string]any{"offsets": listed})
}

func (r *reporter) problem(err error) {
	r.tell("problem", map[string]any{"text": err.Error()})
}

// serveMembers runs members of one client until stdin ends, then lets all leave.
func serveMembers(client string) {
	run := map[string]func(context.Context, *order, *reporter) error{"franz": franzMember, "sarama": saramaMember}[client]
	leave := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o order
		if err := decoder.Decode(&o); err != nil {
			break
		}
		if o.Do == "leave" {
			leave[o.Member]()
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		leave[o.Member] = cancel
		running.Add(1)
		go func() {
			defer running.Done()
			reporter := &reporter{member: o.Member}
			if err := run(ctx, &o, reporter); err != nil {
				reporter.problem(err)
			}
			reporter.tell("left", nil)
		}()
	}
	for _, cancel := range leave {
		cancel()
	}
	running.Wait()
}
