package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var franzVerbs = map[string]verb{
	"produce": franzProduce, "consume": franzConsume, "watermarks": franzWatermarks, "offset_for_time": franzOffsetForTime,
	"create_topic": franzCreate, "create_partitions": franzPartitions, "set_configs": franzSetConfigs,
	"describe_configs": franzConfigs, "delete_records": franzDeleteRecords, "delete_topics": franzDeleteTopics, "list_topics": franzList,
	"transact": franzTransact,
}

func franzClient(r *request, more ...kgo.Opt) (*kgo.Client, context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout())
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.Bootstrap)}, more...)...)
	return client, ctx, cancel, err
}

func franzProduceOptions(r *request) []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[r.Codec]), kgo.RequiredAcks(acks[r.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(maxRequestBytes),
		kgo.AllowAutoTopicCreation(),
	}
	if !r.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options
}

func franzProduce(r *request) (any, error) {
	client, ctx, cancel, err := franzClient(r, franzProduceOptions(r)...)
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer client.Close()
	records := make([]*kgo.Record, 0, len(r.Messages))
	for _, m := range r.Messages {
		record := &kgo.Record{Topic: r.Topic, Partition: m.Partition, Key: m.Key, Value: m.Value}
		for _, header := range m.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: *header[0], Value: headerBytes(header[1])})
		}
		if m.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*m.Timestamp)
		}
		records = append(records, record)
	}
	results := make([]sent, 0, len(records))
	for _, result := range client.ProduceSync(ctx, records...) {
		switch {
		case result.Err != nil:
			results = append(results, failed(result.Err))
		case r.Acks == "0":
			results = append(results, sent{Offset: -1})
		default:
			results = append(results, sent{Offset: result.Record.Offset, Timestamp: result.Record.Timestamp.UnixMilli()})
		}
	}
	return results, nil
}

func franzConsume(r *request) (any, error) {
	start := map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(r.Start)}}
	options := []kgo.Opt{kgo.ConsumePartitions(start), kgo.FetchMaxWait(200 * time.Millisecond)}
	if r.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, ctx, cancel, err := franzClient(r, options...)
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer client.Close()
	found := []message{}
	for len(found) < r.Count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, franzMessage(record)) })
	}
	return found, nil
}

func franzMessage(record *kgo.Record) message {
	timestamp := record.Timestamp.UnixMilli()
	m := message{
		Partition: record.Partition, Offset: record.Offset, Key: record.Key, Value: record.Value,
		Timestamp: &timestamp, TimestampType: int(record.Attrs.TimestampType()), Headers: [][2]*string{},
	}
	for _, header := range record.Headers {
		m.Headers = append(m.Headers, headerText(header.Key, header.Value))
	}
	return m
}

// franzAdmin runs one admin call on a client of its own.
func franzAdmin(r *request, call func(context.Context, *kadm.Client) (any, error)) (any, error) {
	client, ctx, cancel, err := franzClient(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer client.Close()
	return call(ctx, kadm.NewClient(client))
}

func franzWatermarks(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		starts, err := admin.ListStartOffsets(ctx, r.Topic)
		if err != nil {
			return nil, err
		}
		ends, err := admin.ListEndOffsets(ctx, r.Topic)
		if err != nil {
			return nil, err
		}
		start, ok := starts.Lookup(r.Topic, r.Partition)
		end, known := ends.Lookup(r.Topic, r.Partition)
		if !ok || !known {
			return nil, fmt.Errorf("no offsets for %s", r.Topic)
		}
		return []int64{start.Offset, end.Offset}, nil
	})
}

func franzOffsetForTime(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		listed, err := admin.ListOffsetsAfterMilli(ctx, r.Timestamp, r.Topic)
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(r.Topic, r.Partition)
		// kadm answers with the end offset and timestamp -1 where no record is that young.
		if found.Err != nil || found.Timestamp == -1 {
			return nil, found.Err
		}
		return found.Offset, nil
	})
}

func franzCreate(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		created, err := admin.CreateTopic(ctx, int32(r.Count), -1, r.Configs, r.Topic)
		if err != nil {
			return nil, err
		}
		return created.ID.String(), created.Err
	})
}

func franzPartitions(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		changed, err := admin.UpdatePartitions(ctx, r.Count, r.Topic)
		if err != nil {
			return nil, err
		}
		return true, changed.Error()
	})
}

func franzSetConfigs(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		changes := []kadm.AlterConfig{}
		for name, value := range r.Configs {
			op := kadm.SetConfig
			if value == nil {
				op = kadm.DeleteConfig
			}
			changes = append(changes, kadm.AlterConfig{Op: op, Name: name, Value: value})
		}
		answers, err := admin.AlterTopicConfigs(ctx, changes, r.Topic)
		if err != nil {
			return nil, err
		}
		answer, err := answers.On(r.Topic, nil)
		if err != nil {
			return nil, err
		}
		return true, answer.Err
	})
}

func franzConfigs(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		described, err := admin.DescribeTopicConfigs(ctx, r.Topic)
		if err != nil {
			return nil, err
		}
		resource, err := described.On(r.Topic, nil)
		if err != nil {
			return nil, err
		}
		values := map[string]string{}
		for _, config := range resource.Configs {
			values[config.Key] = config.MaybeValue()
		}
		return values, resource.Err
	})
}

func franzDeleteRecords(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: r.Topic, Partition: r.Partition, At: r.Start})
		deleted, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		answer, _ := deleted.Lookup(r.Topic, r.Partition)
		return answer.LowWatermark, answer.Err
	})
}

func franzDeleteTopics(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		deleted, err := admin.DeleteTopics(ctx, r.Names...)
		if err != nil {
			return nil, err
		}
		return true, deleted.Error()
	})
}

func franzList(r *request) (any, error) {
	return franzAdmin(r, func(ctx context.Context, admin *kadm.Client) (any, error) {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		partitions := map[string]int{}
		for name, topic := range topics {
			partitions[name] = len(topic.Partitions)
		}
		return partitions, nil
	})
}
