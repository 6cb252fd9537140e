//go:build segmentio

package compat

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

type segmentio struct{ client *kafka.Client }

func newClient(bootstrap string) Client {
	return segmentio{&kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: timeout}}
}

func (s segmentio) CreateTopic(topic string, partitions int32) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: int(partitions), ReplicationFactor: 1}
	answer, err := s.client.CreateTopics(context.Background(),
		&kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s segmentio) DeleteTopic(topic string) error {
	answer, err := s.client.DeleteTopics(context.Background(),
		&kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

// Partitions asks for all topics: to ask for one may create it.
func (s segmentio) Partitions(topic string) (found []int32, err error) {
	// The client's pool keeps what it knows for some seconds: a new one asks.
	client := kafka.Client{Addr: s.client.Addr, Timeout: timeout, Transport: &kafka.Transport{}}
	answer, err := client.Metadata(context.Background(), &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	for _, each := range answer.Topics {
		if each.Name != topic {
			continue
		}
		for _, partition := range each.Partitions {
			found = append(found, int32(partition.ID))
		}
	}
	return sorted(found), nil
}

var segmentioCodecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// Produce uses Writer, its producer. It reports offsets only to Completion, batch by batch.
func (s segmentio) Produce(topic string, records []Record, options Options) ([]int64, error) {
	offsets := make([]int64, len(records))
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Partition: int(r.Partition), Key: r.Key, Value: r.Value,
			Time: r.Timestamp, WriterData: i}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, kafka.Header(h))
		}
	}
	writer := &kafka.Writer{
		Addr:                   s.client.Addr,
		Topic:                  topic,
		Compression:            segmentioCodecs[options.Codec],
		RequiredAcks:           kafka.RequireAll,
		BatchTimeout:           5 * time.Millisecond,
		BatchBytes:             max(int64(options.MaxBytes), 1_000_000),
		AllowAutoTopicCreation: true,
		Transport:              &kafka.Transport{},
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int {
			return int(records[m.WriterData.(int)].Partition)
		}),
		Completion: func(done []kafka.Message, _ error) {
			for _, message := range done {
				offsets[message.WriterData.(int)] = message.Offset
			}
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := writer.WriteMessages(ctx, messages...)
	// A new topic may have no leader yet; to try again is left to the caller.
	for errors.Is(err, kafka.UnknownTopicOrPartition) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		err = writer.WriteMessages(ctx, messages...)
	}
	return offsets, errors.Join(err, writer.Close())
}

func (s segmentio) Idempotent(string) (Sender, error) {
	return nil, errors.New("kafka-go has no idempotent producer")
}

func fromSegmentio(m kafka.Message) Record {
	record := Record{int32(m.Partition), m.Offset, m.Key, m.Value, m.Time, nil}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, Header(h))
	}
	return record
}

func (s segmentio) reader(config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers = []string{s.client.Addr.String()}
	config.MaxWait = 200 * time.Millisecond
	return kafka.NewReader(config)
}

func take(reader *kafka.Reader, count int) (records []Record, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for len(records) < count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return records, err
		}
		records = append(records, fromSegmentio(message))
	}
	return records, nil
}

func (s segmentio) at(topic string, start int64) (*kafka.Reader, error) {
	reader := s.reader(kafka.ReaderConfig{Topic: topic, Partition: 0, MaxBytes: 10_000_000})
	places := map[int64]int64{earliest: kafka.FirstOffset, latest: kafka.LastOffset}
	if place, isEnd := places[start]; isEnd {
		start = place
	}
	return reader, reader.SetOffset(start)
}

func (s segmentio) Consume(topic string, start int64, count int) ([]Record, error) {
	reader, err := s.at(topic, start)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return take(reader, count)
}

func (s segmentio) Tail(topic string) (func() []Record, error) {
	reader, err := s.at(topic, latest)
	return func() (records []Record) {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		for {
			message, err := reader.FetchMessage(ctx)
			if err != nil {
				return records
			}
			records = append(records, fromSegmentio(message))
		}
	}, err
}

// OffsetFor seeks as a Reader does and reads what is there: the Client's own ListOffsets answers
// with a map by offset.
func (s segmentio) OffsetFor(topic string, timestamp time.Time) (int64, error) {
	reader := s.reader(kafka.ReaderConfig{Topic: topic, Partition: 0, MaxBytes: 10_000_000})
	defer reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := reader.SetOffsetAt(ctx, timestamp); err != nil {
		return 0, err
	}
	return reader.Offset(), nil
}

func (s segmentio) member(group, topic string, more kafka.ReaderConfig) *kafka.Reader {
	more.GroupID, more.Topic = group, topic
	more.StartOffset = kafka.FirstOffset
	return s.reader(more)
}

func (s segmentio) GroupTake(group, topic string, count int) ([]Record, error) {
	reader := s.member(group, topic, kafka.ReaderConfig{})
	records, err := take(reader, count)
	if err == nil {
		last := records[len(records)-1]
		err = reader.CommitMessages(context.Background(),
			kafka.Message{Topic: topic, Partition: int(last.Partition), Offset: last.Offset})
	}
	return records, errors.Join(err, reader.Close())
}

func (s segmentio) Committed(group, topic string, partitions int32) ([]int64, error) {
	asked := make([]int, partitions)
	for i := range asked {
		asked[i] = i
	}
	answer, err := s.client.OffsetFetch(context.Background(),
		&kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: asked}})
	if err != nil {
		return nil, err
	}
	committed := slices.Repeat([]int64{-1}, int(partitions))
	for _, found := range answer.Topics[topic] {
		committed[found.Partition] = found.CommittedOffset
	}
	return committed, answer.Error
}

func (s segmentio) Member(ctx context.Context, group, topic string, session time.Duration,
	onRecord func(int32, []byte)) error {
	reader := s.member(group, topic, kafka.ReaderConfig{
		SessionTimeout: session, HeartbeatInterval: 500 * time.Millisecond,
	})
	for {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return reader.Close()
		}
		onRecord(int32(message.Partition), message.Value)
		// An error means that a rebalance came between: who has the partition now commits.
		_ = reader.CommitMessages(context.Background(), message)
	}
}

func (segmentio) ErrorName(err error) string {
	var many kafka.WriteErrors
	if errors.As(err, &many) && len(many) > 0 {
		err = many[0]
	}
	var tooLarge kafka.MessageTooLargeError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, kafka.MessageSizeTooLarge):
		return "MESSAGE_TOO_LARGE"
	case errors.Is(err, kafka.InvalidTopic):
		return "INVALID_TOPIC_EXCEPTION"
	case err == nil:
		return "none"
	}
	return err.Error()
}
