package main

import (
	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A transaction as a test wants it: its values, all to partition 0, and its end.
type transaction struct {
	Values []string `json:"values"`
	Commit bool     `json:"commit"`
}

func franzTransact(r *request) (any, error) {
	client, ctx, cancel, err := franzClient(r, kgo.TransactionalID(r.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer client.Close()
	for _, wanted := range r.Transactions {
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
		records := []*kgo.Record{}
		for _, value := range wanted.Values {
			records = append(records, &kgo.Record{Topic: r.Topic, Partition: 0, Value: []byte(value)})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return nil, err
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(wanted.Commit)); err != nil {
			return nil, err
		}
	}
	return true, nil
}

func saramaTransact(r *request) (any, error) {
	config := saramaProducerConfig(&request{Codec: "none", Acks: "all", Idempotent: true})
	config.Producer.Transaction.ID = r.TransactionalID
	producer, err := sarama.NewSyncProducer([]string{r.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, wanted := range r.Transactions {
		if err := producer.BeginTxn(); err != nil {
			return nil, err
		}
		for _, value := range wanted.Values {
			message := &sarama.ProducerMessage{Topic: r.Topic, Partition: 0, Value: sarama.StringEncoder(value)}
			if _, _, err := producer.SendMessage(message); err != nil {
				return nil, err
			}
		}
		end := producer.AbortTxn
		if wanted.Commit {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return nil, err
		}
	}
	return true, nil
}
