package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franzOwned keeps the partitions that the callbacks of the client's group goroutine give and take.
type franzOwned struct {
	lock     sync.Mutex
	places   map[place]bool
	reporter *reporter
}

func (f *franzOwned) change(given map[string][]int32, owned bool) []place {
	f.lock.Lock()
	defer f.lock.Unlock()
	changed := []place{}
	for topic, partitions := range given {
		for _, partition := range partitions {
			p := place{topic, partition}
			changed = append(changed, p)
			if owned {
				f.places[p] = true
			} else {
				delete(f.places, p)
			}
		}
	}
	now := []place{}
	for p := range f.places {
		now = append(now, p)
	}
	f.reporter.assignment(now)
	return changed
}

func franzMemberOptions(o *order, owned *franzOwned, reporter *reporter) []kgo.Opt {
	taken := func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
		reporter.tell("revoked", map[string]any{"places": pairs(owned.change(places, false))})
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(o.Bootstrap), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places map[string][]int32) { owned.change(places, true) }),
		kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken),
	}
	if o.Config["group.protocol"] == "consumer" {
		return append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(options, kgo.SessionTimeout(o.duration("session.timeout.ms")), kgo.HeartbeatInterval(o.duration("heartbeat.interval.ms")))
}

func franzMember(ctx context.Context, o *order, reporter *reporter) error {
	owned := &franzOwned{places: map[place]bool{}, reporter: reporter}
	client, err := kgo.NewClient(franzMemberOptions(o, owned, reporter)...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := client.PollFetches(poll)
		cancel()
		done := map[place]int64{}
		fetches.EachRecord(func(record *kgo.Record) {
			reporter.record(record.Topic, record.Partition, record.Offset, record.Value)
			done[place{record.Topic, record.Partition}] = record.Offset + 1
		})
		if len(done) > 0 {
			if err := client.CommitRecords(context.Background(), fetches.Records()...); err != nil {
				reporter.problem(err)
			} else {
				reporter.committed(done)
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return nil
}
