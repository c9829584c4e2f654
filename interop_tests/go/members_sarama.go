package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// saramaClaims reports the claims of each session, and commits every record before the next.
type saramaClaims struct {
	reporter *reporter
}

func (s *saramaClaims) places(session sarama.ConsumerGroupSession) []place {
	places := []place{}
	for topic, partitions := range session.Claims() {
		for _, partition := range partitions {
			places = append(places, place{topic, partition})
		}
	}
	return places
}

func (s *saramaClaims) Setup(session sarama.ConsumerGroupSession) error {
	s.reporter.assignment(s.places(session))
	return nil
}

func (s *saramaClaims) Cleanup(session sarama.ConsumerGroupSession) error {
	s.reporter.tell("revoked", map[string]any{"places": pairs(s.places(session))})
	s.reporter.assignment(nil)
	return nil
}

func (s *saramaClaims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			s.reporter.record(m.Topic, m.Partition, m.Offset, m.Value)
			session.MarkMessage(m, "")
			session.Commit()
		}
	}
}

func saramaMember(ctx context.Context, o *order, reporter *reporter) error {
	config := saramaConfig()
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = o.duration("session.timeout.ms")
	config.Consumer.Group.Heartbeat.Interval = o.duration("heartbeat.interval.ms")
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{o.Bootstrap}, o.Group, config)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			reporter.problem(err)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, o.Topics, &saramaClaims{reporter}); err != nil {
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				break
			}
			// A broker that is away: the next session begins when it is back.
			reporter.problem(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return group.Close()
}
