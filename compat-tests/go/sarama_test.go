//go:build sarama

package compat

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{ brokers []string }

func newClient(bootstrap string) Client { return saramaClient{[]string{bootstrap}} }

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func (s saramaClient) admin(work func(sarama.ClusterAdmin) error) error {
	admin, err := sarama.NewClusterAdmin(s.brokers, saramaConfig())
	if err != nil {
		return err
	}
	return errors.Join(work(admin), admin.Close())
}

func (s saramaClient) CreateTopic(topic string, partitions int32) error {
	return s.admin(func(admin sarama.ClusterAdmin) error {
		detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
		return admin.CreateTopic(topic, detail, false)
	})
}

func (s saramaClient) DeleteTopic(topic string) error {
	return s.admin(func(admin sarama.ClusterAdmin) error { return admin.DeleteTopic(topic) })
}

func (s saramaClient) Partitions(topic string) (found []int32, err error) {
	err = s.admin(func(admin sarama.ClusterAdmin) error {
		topics, err := admin.ListTopics()
		if _, exists := topics[topic]; err != nil || !exists {
			return err
		}
		described, err := admin.DescribeTopics([]string{topic})
		for _, partition := range described[0].Partitions {
			if partition.Leader >= 0 {
				found = append(found, partition.ID)
			}
		}
		return err
	})
	return sorted(found), err
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func encoder(bytes []byte) sarama.Encoder {
	if bytes == nil {
		return nil
	}
	return sarama.ByteEncoder(bytes)
}

func toSarama(topic string, r Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Key: encoder(r.Key),
		Value: encoder(r.Value), Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		message.Headers = append(message.Headers,
			sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return message
}

func (s saramaClient) Produce(topic string, records []Record, options Options) ([]int64, error) {
	config := saramaConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = saramaCodecs[options.Codec]
	if options.MaxBytes > 0 {
		config.Producer.MaxMessageBytes = options.MaxBytes
	}
	producer, err := sarama.NewSyncProducer(s.brokers, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, record := range records {
		messages[i] = toSarama(topic, record)
	}
	err = producer.SendMessages(messages)
	offsets := make([]int64, len(records))
	for i, message := range messages {
		offsets[i] = message.Offset
	}
	return offsets, err
}

type saramaSender struct {
	producer sarama.AsyncProducer
	topic    string
	sent     int
	results  chan error
}

func (s saramaClient) Idempotent(topic string) (Sender, error) {
	config := saramaConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 200
	config.Net.MaxOpenRequests = 1
	config.Metadata.Retry.Max = 100
	producer, err := sarama.NewAsyncProducer(s.brokers, config)
	if err != nil {
		return nil, err
	}
	sender := &saramaSender{producer, topic, 0, make(chan error, 1_000_000)}
	go func() {
		for range producer.Successes() {
			sender.results <- nil
		}
	}()
	go func() {
		for err := range producer.Errors() {
			sender.results <- err
		}
	}()
	return sender, nil
}

func (s *saramaSender) Send(value []byte) error {
	s.sent++
	s.producer.Input() <- toSarama(s.topic, Record{Value: value})
	return nil
}

// Finish closes the producer when all answers are there: a close gives up what is being retried.
func (s *saramaSender) Finish() (acknowledged int, err error) {
	defer s.producer.AsyncClose()
	for deadline := time.After(3 * timeout); acknowledged < s.sent; acknowledged++ {
		select {
		case err := <-s.results:
			if err != nil {
				return acknowledged, err
			}
		case <-deadline:
			return acknowledged, errors.New("not all acknowledgements came")
		}
	}
	return acknowledged, nil
}

func fromSarama(m *sarama.ConsumerMessage) Record {
	record := Record{m.Partition, m.Offset, m.Key, m.Value, m.Timestamp, nil}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, Header{string(h.Key), h.Value})
	}
	return record
}

func (s saramaClient) at(topic string, offset int64) (sarama.PartitionConsumer, func(), error) {
	consumer, err := sarama.NewConsumer(s.brokers, saramaConfig())
	if err != nil {
		return nil, nil, err
	}
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, nil, errors.Join(err, consumer.Close())
	}
	return partition, func() { partition.Close(); consumer.Close() }, nil
}

func (s saramaClient) Consume(topic string, start int64, count int) (records []Record, err error) {
	// Its numbers for the two ends are Kafka's.
	consumer, stop, err := s.at(topic, start)
	if err != nil {
		return nil, err
	}
	defer stop()
	for deadline := time.After(timeout); len(records) < count; {
		select {
		case message := <-consumer.Messages():
			records = append(records, fromSarama(message))
		case <-deadline:
			return records, errors.New("not all records came")
		}
	}
	return records, nil
}

func (s saramaClient) Tail(topic string) (func() []Record, error) {
	consumer, _, err := s.at(topic, latest)
	return func() (records []Record) {
		for deadline := time.After(500 * time.Millisecond); ; {
			select {
			case message := <-consumer.Messages():
				records = append(records, fromSarama(message))
			case <-deadline:
				return records
			}
		}
	}, err
}

func (s saramaClient) OffsetFor(topic string, timestamp time.Time) (int64, error) {
	client, err := sarama.NewClient(s.brokers, saramaConfig())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return client.GetOffset(topic, 0, timestamp.UnixMilli())
}

// saramaMember is a group member that hands each message to a function.
type saramaMember struct {
	onMessage func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession,
	claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.onMessage(session, message)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s saramaClient) GroupTake(group, topic string, count int) (records []Record, err error) {
	consumer, err := sarama.NewConsumerGroup(s.brokers, group, saramaConfig())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	take := func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		if len(records) == count {
			return
		}
		records = append(records, fromSarama(message))
		if len(records) == count {
			session.MarkMessage(message, "")
			session.Commit()
			stop()
		}
	}
	for ctx.Err() == nil && err == nil {
		err = consumer.Consume(ctx, []string{topic}, saramaMember{take})
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return records, errors.Join(err, consumer.Close())
}

func (s saramaClient) Committed(group, topic string, partitions int32) ([]int64, error) {
	committed := slices.Repeat([]int64{-1}, int(partitions))
	asked := make([]int32, partitions)
	for i := range asked {
		asked[i] = int32(i)
	}
	err := s.admin(func(admin sarama.ClusterAdmin) error {
		found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: asked})
		if err != nil {
			return err
		}
		for partition, block := range found.Blocks[topic] {
			committed[partition] = block.Offset
		}
		return nil
	})
	return committed, err
}

func (s saramaClient) Member(ctx context.Context, group, topic string, session time.Duration,
	onRecord func(int32, []byte)) error {
	config := saramaConfig()
	config.Consumer.Group.Session.Timeout = session
	if mode() == "static" {
		config.Consumer.Group.InstanceId = instance()
	}
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup(s.brokers, group, config)
	if err != nil {
		return err
	}
	process := func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		onRecord(message.Partition, message.Value)
		session.MarkMessage(message, "")
		session.Commit()
	}
	for ctx.Err() == nil && err == nil {
		err = consumer.Consume(ctx, []string{topic}, saramaMember{process})
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, consumer.Close())
}

func (saramaClient) ErrorName(err error) string {
	var of sarama.ProducerErrors
	if errors.As(err, &of) && len(of) > 0 {
		err = of[0].Err
	}
	switch {
	case errors.Is(err, sarama.ErrMessageSizeTooLarge):
		return "MESSAGE_TOO_LARGE"
	case errors.Is(err, sarama.ErrInvalidTopic):
		return "INVALID_TOPIC_EXCEPTION"
	case err == nil:
		return "none"
	}
	return err.Error()
}
