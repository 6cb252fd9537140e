//go:build confluent

package compat

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type confluent struct{ bootstrap string }

func newClient(bootstrap string) Client { return confluent{bootstrap} }

// with is the configuration: the broker, and pairs of key and value.
func (c confluent) with(pairs ...any) *kafka.ConfigMap {
	config := kafka.ConfigMap{"bootstrap.servers": c.bootstrap}
	for i := 0; i < len(pairs); i += 2 {
		config[pairs[i].(string)] = pairs[i+1]
	}
	return &config
}

func (c confluent) admin(work func(*kafka.AdminClient) ([]kafka.TopicResult, error)) error {
	admin, err := kafka.NewAdminClient(c.with())
	if err != nil {
		return err
	}
	defer admin.Close()
	results, err := work(admin)
	if err == nil && results[0].Error.Code() != kafka.ErrNoError {
		err = results[0].Error
	}
	return err
}

func (c confluent) CreateTopic(topic string, partitions int32) error {
	return c.admin(func(admin *kafka.AdminClient) ([]kafka.TopicResult, error) {
		spec := kafka.TopicSpecification{
			Topic: topic, NumPartitions: int(partitions), ReplicationFactor: 1}
		return admin.CreateTopics(context.Background(), []kafka.TopicSpecification{spec})
	})
}

func (c confluent) DeleteTopic(topic string) error {
	return c.admin(func(admin *kafka.AdminClient) ([]kafka.TopicResult, error) {
		return admin.DeleteTopics(context.Background(), []string{topic})
	})
}

func (c confluent) Partitions(topic string) (found []int32, err error) {
	admin, err := kafka.NewAdminClient(c.with())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	metadata, err := admin.GetMetadata(nil, true, int(timeout.Milliseconds()))
	if err != nil {
		return nil, err
	}
	for _, partition := range metadata.Topics[topic].Partitions {
		if partition.Leader >= 0 {
			found = append(found, partition.ID)
		}
	}
	return sorted(found), nil
}

func (c confluent) Produce(topic string, records []Record, options Options) ([]int64, error) {
	config := c.with("linger.ms", 5)
	if options.Codec != "" {
		config.SetKey("compression.type", options.Codec)
	}
	if options.MaxBytes > 0 {
		config.SetKey("message.max.bytes", options.MaxBytes)
	}
	producer, err := kafka.NewProducer(config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	delivered := make(chan kafka.Event, len(records))
	for i, r := range records {
		message := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: r.Partition},
			Key:            r.Key, Value: r.Value, Timestamp: r.Timestamp, Opaque: i,
		}
		for _, h := range r.Headers {
			message.Headers = append(message.Headers, kafka.Header(h))
		}
		if err := producer.Produce(message, delivered); err != nil {
			return nil, err
		}
	}
	offsets := make([]int64, len(records))
	for range records {
		message := (<-delivered).(*kafka.Message)
		if message.TopicPartition.Error != nil {
			return nil, message.TopicPartition.Error
		}
		offsets[message.Opaque.(int)] = int64(message.TopicPartition.Offset)
	}
	return offsets, nil
}

type confluentSender struct {
	producer  *kafka.Producer
	topic     string
	delivered chan kafka.Event
	sent      int
}

func (c confluent) Idempotent(topic string) (Sender, error) {
	producer, err := kafka.NewProducer(c.with("enable.idempotence", true))
	return &confluentSender{producer, topic, make(chan kafka.Event, 1_000_000), 0}, err
}

func (s *confluentSender) Send(value []byte) error {
	s.sent++
	return s.producer.Produce(&kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &s.topic, Partition: 0}, Value: value,
	}, s.delivered)
}

func (s *confluentSender) Finish() (acknowledged int, err error) {
	defer s.producer.Close()
	for deadline := time.After(3 * timeout); acknowledged < s.sent; acknowledged++ {
		select {
		case event := <-s.delivered:
			if err := event.(*kafka.Message).TopicPartition.Error; err != nil {
				return acknowledged, err
			}
		case <-deadline:
			return acknowledged, errors.New("not all acknowledgements came")
		}
	}
	return acknowledged, nil
}

func fromConfluent(m *kafka.Message) Record {
	at := m.TopicPartition
	record := Record{at.Partition, int64(at.Offset), m.Key, m.Value, m.Timestamp, nil}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, Header(h))
	}
	return record
}

func (c confluent) consumer(group string, pairs ...any) (*kafka.Consumer, error) {
	pairs = append(pairs, "group.id", group, "enable.auto.commit", false)
	return kafka.NewConsumer(c.with(pairs...))
}

// pollUntil hands records to the function until it says false or the time is over.
func pollUntil(consumer *kafka.Consumer, limit time.Duration, onRecord func(Record) bool) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if message, isMessage := consumer.Poll(100).(*kafka.Message); isMessage {
			if message.TopicPartition.Error == nil && !onRecord(fromConfluent(message)) {
				return
			}
		}
	}
}

func takeConfluent(consumer *kafka.Consumer, count int) (records []Record, err error) {
	pollUntil(consumer, timeout, func(record Record) bool {
		records = append(records, record)
		return len(records) < count
	})
	if len(records) < count {
		err = errors.New("not all records came")
	}
	return records, err
}

func (c confluent) at(topic string, offset kafka.Offset) (*kafka.Consumer, error) {
	consumer, err := c.consumer("unused")
	if err != nil {
		return nil, err
	}
	return consumer, consumer.Assign([]kafka.TopicPartition{{Topic: &topic, Offset: offset}})
}

func (c confluent) Consume(topic string, start int64, count int) ([]Record, error) {
	consumer, err := c.at(topic, kafka.Offset(start))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	return takeConfluent(consumer, count)
}

func (c confluent) Tail(topic string) (func() []Record, error) {
	consumer, err := c.at(topic, kafka.OffsetEnd)
	return func() (records []Record) {
		pollUntil(consumer, 500*time.Millisecond, func(record Record) bool {
			records = append(records, record)
			return true
		})
		return records
	}, err
}

func (c confluent) OffsetFor(topic string, timestamp time.Time) (int64, error) {
	consumer, err := c.consumer("unused")
	if err != nil {
		return 0, err
	}
	defer consumer.Close()
	asked := kafka.TopicPartition{Topic: &topic, Offset: kafka.Offset(timestamp.UnixMilli())}
	found, err := consumer.OffsetsForTimes([]kafka.TopicPartition{asked}, int(timeout.Milliseconds()))
	if err != nil {
		return 0, err
	}
	return int64(found[0].Offset), found[0].Error
}

func (c confluent) GroupTake(group, topic string, count int) ([]Record, error) {
	consumer, err := c.consumer(group, "auto.offset.reset", "earliest")
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	if err := consumer.SubscribeTopics([]string{topic}, nil); err != nil {
		return nil, err
	}
	records, err := takeConfluent(consumer, count)
	if err != nil {
		return records, err
	}
	next := kafka.Offset(records[len(records)-1].Offset + 1)
	_, err = consumer.CommitOffsets([]kafka.TopicPartition{{Topic: &topic, Offset: next}})
	return records, err
}

func (c confluent) Committed(group, topic string, partitions int32) ([]int64, error) {
	consumer, err := c.consumer(group)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	asked := make([]kafka.TopicPartition, partitions)
	for i := range asked {
		asked[i] = kafka.TopicPartition{Topic: &topic, Partition: int32(i)}
	}
	found, err := consumer.Committed(asked, int(timeout.Milliseconds()))
	committed := slices.Repeat([]int64{-1}, int(partitions))
	for _, each := range found {
		if each.Offset >= 0 {
			committed[each.Partition] = int64(each.Offset)
		}
	}
	return committed, err
}

func (c confluent) Member(ctx context.Context, group, topic string, session time.Duration,
	onRecord func(int32, []byte)) error {
	options := []any{"auto.offset.reset", "earliest"}
	if mode() == "kip848" {
		// The broker says how long a session is.
		options = append(options, "group.protocol", "consumer")
	} else {
		options = append(options, "session.timeout.ms", int(session.Milliseconds()),
			"heartbeat.interval.ms", 500)
	}
	switch mode() {
	case "static":
		options = append(options, "group.instance.id", instance())
	case "cooperative":
		options = append(options, "partition.assignment.strategy", "cooperative-sticky")
	}
	consumer, err := c.consumer(group, options...)
	if err != nil {
		return err
	}
	if err := consumer.SubscribeTopics([]string{topic}, nil); err != nil {
		return err
	}
	for ctx.Err() == nil {
		pollUntil(consumer, 200*time.Millisecond, func(record Record) bool {
			onRecord(record.Partition, record.Value)
			at := kafka.TopicPartition{Topic: &topic, Partition: record.Partition,
				Offset: kafka.Offset(record.Offset + 1)}
			// An error means that a rebalance came between: who has the partition now commits.
			_, _ = consumer.CommitOffsets([]kafka.TopicPartition{at})
			return ctx.Err() == nil
		})
	}
	return consumer.Close()
}

func (confluent) ErrorName(err error) string {
	var known kafka.Error
	if !errors.As(err, &known) {
		return "none"
	}
	switch known.Code() {
	case kafka.ErrMsgSizeTooLarge:
		return "MESSAGE_TOO_LARGE"
	case kafka.ErrTopicException:
		return "INVALID_TOPIC_EXCEPTION"
	}
	return known.Error()
}
