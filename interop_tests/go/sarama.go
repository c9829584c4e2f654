package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

var saramaVerbs = map[string]verb{
	"produce": saramaProduce, "consume": saramaConsume, "watermarks": saramaWatermarks, "offset_for_time": saramaOffsetForTime,
	"create_topic": saramaCreate, "create_partitions": saramaPartitions, "set_configs": saramaSetConfigs,
	"describe_configs": saramaConfigs, "delete_records": saramaDeleteRecords, "delete_topics": saramaDeleteTopics, "list_topics": saramaList,
	"transact": saramaTransact,
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func saramaProducerConfig(r *request) *sarama.Config {
	config := saramaConfig()
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	acks := map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}
	config.Producer.Compression = codecs[r.Codec]
	config.Producer.RequiredAcks = acks[r.Acks]
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = maxRequestBytes
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	if r.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	return config
}

func saramaMessages(r *request) []*sarama.ProducerMessage {
	messages := make([]*sarama.ProducerMessage, 0, len(r.Messages))
	for i, m := range r.Messages {
		wanted := &sarama.ProducerMessage{Topic: r.Topic, Partition: m.Partition, Metadata: i}
		if m.Key != nil {
			wanted.Key = sarama.ByteEncoder(m.Key)
		}
		if m.Value != nil {
			wanted.Value = sarama.ByteEncoder(m.Value)
		}
		for _, header := range m.Headers {
			wanted.Headers = append(wanted.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: headerBytes(header[1])})
		}
		if m.Timestamp != nil {
			wanted.Timestamp = time.UnixMilli(*m.Timestamp)
		}
		messages = append(messages, wanted)
	}
	return messages
}

func saramaProduce(r *request) (any, error) {
	producer, err := sarama.NewSyncProducer([]string{r.Bootstrap}, saramaProducerConfig(r))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := saramaMessages(r)
	problems := map[int]error{}
	var each sarama.ProducerErrors
	if err := producer.SendMessages(messages); errors.As(err, &each) {
		for _, one := range each {
			problems[one.Msg.Metadata.(int)] = one.Err
		}
	} else if err != nil {
		return nil, err
	}
	results := make([]sent, 0, len(messages))
	for i, m := range messages {
		switch {
		case problems[i] != nil:
			results = append(results, failed(problems[i]))
		case r.Acks == "0":
			results = append(results, sent{Offset: -1})
		default:
			results = append(results, sent{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli()})
		}
	}
	return results, nil
}

func saramaConsume(r *request) (any, error) {
	config := saramaConfig()
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	if r.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{r.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(r.Topic, r.Partition, r.Start)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	found := []message{}
	deadline := time.After(r.timeout())
	for len(found) < r.Count {
		select {
		case record := <-partition.Messages():
			found = append(found, saramaMessage(record))
		case problem := <-partition.Errors():
			return nil, problem.Err
		case <-deadline:
			return found, nil
		}
	}
	return found, nil
}

func saramaMessage(record *sarama.ConsumerMessage) message {
	timestamp := record.Timestamp.UnixMilli()
	m := message{
		Partition: record.Partition, Offset: record.Offset, Key: record.Key, Value: record.Value,
		Timestamp: &timestamp, TimestampType: -1, Headers: [][2]*string{},
	}
	for _, header := range record.Headers {
		m.Headers = append(m.Headers, headerText(string(header.Key), header.Value))
	}
	return m
}

func saramaOffset(r *request, times ...int64) ([]int64, error) {
	client, err := sarama.NewClient([]string{r.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offsets := []int64{}
	for _, at := range times {
		offset, err := client.GetOffset(r.Topic, r.Partition, at)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func saramaWatermarks(r *request) (any, error) {
	return saramaOffset(r, sarama.OffsetOldest, sarama.OffsetNewest)
}

func saramaOffsetForTime(r *request) (any, error) {
	offsets, err := saramaOffset(r, r.Timestamp)
	if err != nil || offsets[0] == -1 {
		return nil, err
	}
	return offsets[0], nil
}

// saramaAdmin runs one admin call on a client of its own.
func saramaAdmin(r *request, call func(sarama.ClusterAdmin) (any, error)) (any, error) {
	admin, err := sarama.NewClusterAdmin([]string{r.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return call(admin)
}

func saramaCreate(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		detail := &sarama.TopicDetail{NumPartitions: int32(r.Count), ReplicationFactor: -1, ConfigEntries: r.Configs}
		return true, admin.CreateTopic(r.Topic, detail, false)
	})
}

func saramaPartitions(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		return true, admin.CreatePartitions(r.Topic, int32(r.Count), nil, false)
	})
}

func saramaSetConfigs(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range r.Configs {
			op := sarama.IncrementalAlterConfigsOperationSet
			if value == nil {
				op = sarama.IncrementalAlterConfigsOperationDelete
			}
			changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: op, Value: value}
		}
		return true, admin.IncrementalAlterConfig(sarama.TopicResource, r.Topic, changes, false)
	})
}

func saramaConfigs(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: r.Topic})
		values := map[string]string{}
		for _, entry := range entries {
			values[entry.Name] = entry.Value
		}
		return values, err
	})
}

func saramaDeleteRecords(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		return r.Start, admin.DeleteRecords(r.Topic, map[int32]int64{r.Partition: r.Start})
	})
}

func saramaDeleteTopics(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		for _, name := range r.Names {
			if err := admin.DeleteTopic(name); err != nil {
				return nil, err
			}
		}
		return true, nil
	})
}

func saramaList(r *request) (any, error) {
	return saramaAdmin(r, func(admin sarama.ClusterAdmin) (any, error) {
		topics, err := admin.ListTopics()
		partitions := map[string]int{}
		for name, topic := range topics {
			partitions[name] = int(topic.NumPartitions)
		}
		return partitions, err
	})
}
