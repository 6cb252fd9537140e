//go:build franz

package compat

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap string }

func newClient(bootstrap string) Client { return franz{bootstrap} }

func (f franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(f.bootstrap))...)
}

func (f franz) admin(work func(*kadm.Client) error) error {
	client, err := f.open()
	if err != nil {
		return err
	}
	defer client.Close()
	return work(kadm.NewClient(client))
}

func withTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

func (f franz) CreateTopic(topic string, partitions int32) error {
	return f.admin(func(admin *kadm.Client) error {
		_, err := admin.CreateTopic(context.Background(), partitions, 1, nil, topic)
		return err
	})
}

func (f franz) DeleteTopic(topic string) error {
	return f.admin(func(admin *kadm.Client) error {
		_, err := admin.DeleteTopic(context.Background(), topic)
		return err
	})
}

func (f franz) Partitions(topic string) (found []int32, err error) {
	err = f.admin(func(admin *kadm.Client) error {
		topics, err := admin.ListTopics(context.Background(), topic)
		for _, partition := range topics[topic].Partitions {
			if partition.Leader >= 0 {
				found = append(found, partition.Partition)
			}
		}
		return err
	})
	return sorted(found), err
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f franz) Produce(topic string, records []Record, options Options) ([]int64, error) {
	settings := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[options.Codec]),
		kgo.AllowAutoTopicCreation(),
	}
	if options.MaxBytes > 0 {
		settings = append(settings, kgo.ProducerBatchMaxBytes(int32(options.MaxBytes)))
	}
	client, err := f.open(settings...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := make([]*kgo.Record, len(records))
	for i, r := range records {
		sent[i] = &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Timestamp: r.Timestamp}
		for _, h := range r.Headers {
			sent[i].Headers = append(sent[i].Headers, kgo.RecordHeader(h))
		}
	}
	ctx, cancel := withTimeout()
	defer cancel()
	offsets := make([]int64, len(records))
	results := client.ProduceSync(ctx, sent...)
	for i := range sent {
		offsets[i] = sent[i].Offset
	}
	return offsets, results.FirstErr()
}

type franzSender struct {
	client       *kgo.Client
	topic        string
	lock         sync.Mutex
	acknowledged int
	err          error
}

func (f franz) Idempotent(topic string) (Sender, error) {
	client, err := f.open(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return &franzSender{client: client, topic: topic}, err
}

func (s *franzSender) Send(value []byte) error {
	record := &kgo.Record{Topic: s.topic, Value: value}
	s.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		s.lock.Lock()
		defer s.lock.Unlock()
		if err != nil {
			s.err = err
		} else {
			s.acknowledged++
		}
	})
	return nil
}

func (s *franzSender) Finish() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout)
	defer cancel()
	err := s.client.Flush(ctx)
	s.client.Close()
	return s.acknowledged, errors.Join(err, s.err)
}

func fromKgo(r *kgo.Record) Record {
	record := Record{r.Partition, r.Offset, r.Key, r.Value, r.Timestamp, nil}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, Header(h))
	}
	return record
}

func (f franz) at(topic string, offset kgo.Offset) (*kgo.Client, error) {
	return f.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}))
}

func takeKgo(client *kgo.Client, count int) (records []Record, err error) {
	ctx, cancel := withTimeout()
	defer cancel()
	for len(records) < count {
		fetches := client.PollRecords(ctx, count-len(records))
		if err := fetches.Err0(); err != nil {
			return records, err
		}
		for _, r := range fetches.Records() {
			records = append(records, fromKgo(r))
		}
	}
	return records, nil
}

func (f franz) Consume(topic string, start int64, count int) ([]Record, error) {
	offset := kgo.NewOffset().At(start)
	if start == earliest {
		offset = kgo.NewOffset().AtStart()
	}
	client, err := f.at(topic, offset)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return takeKgo(client, count)
}

func (f franz) Tail(topic string) (func() []Record, error) {
	client, err := f.at(topic, kgo.NewOffset().AtEnd())
	return func() (records []Record) {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		for _, r := range client.PollFetches(ctx).Records() {
			records = append(records, fromKgo(r))
		}
		return records
	}, err
}

func (f franz) OffsetFor(topic string, timestamp time.Time) (offset int64, err error) {
	err = f.admin(func(admin *kadm.Client) error {
		ctx, cancel := withTimeout()
		defer cancel()
		found, err := admin.ListOffsetsAfterMilli(ctx, timestamp.UnixMilli(), topic)
		listed, _ := found.Lookup(topic, 0)
		offset = listed.Offset
		return errors.Join(err, found.Error())
	})
	return offset, err
}

func (f franz) member(group, topic string, more ...kgo.Opt) (*kgo.Client, error) {
	return f.open(append(more, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
}

func (f franz) GroupTake(group, topic string, count int) ([]Record, error) {
	client, err := f.member(group, topic)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records, err := takeKgo(client, count)
	if err != nil {
		return records, err
	}
	last := records[len(records)-1]
	ctx, cancel := withTimeout()
	defer cancel()
	return records, client.CommitRecords(ctx,
		&kgo.Record{Topic: topic, Partition: last.Partition, Offset: last.Offset, LeaderEpoch: -1})
}

func (f franz) Committed(group, topic string, partitions int32) ([]int64, error) {
	committed := slices.Repeat([]int64{-1}, int(partitions))
	err := f.admin(func(admin *kadm.Client) error {
		ctx, cancel := withTimeout()
		defer cancel()
		found, err := admin.FetchOffsets(ctx, group)
		for partition, offset := range found[topic] {
			committed[partition] = offset.At
		}
		return errors.Join(err, found.Error())
	})
	return committed, err
}

func (f franz) Member(ctx context.Context, group, topic string, session time.Duration,
	onRecord func(int32, []byte)) error {
	options := []kgo.Opt{kgo.SessionTimeout(session), kgo.HeartbeatInterval(500 * time.Millisecond)}
	switch mode() {
	case "":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "static":
		options = append(options, kgo.InstanceID(instance()))
	case "kip848":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := f.member(group, topic, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		records := client.PollFetches(ctx).Records()
		for _, r := range records {
			onRecord(r.Partition, r.Value)
		}
		// An error means that a rebalance came between: who has the partition now commits.
		_ = client.CommitRecords(context.Background(), records...)
	}
	return nil
}

func (f franz) ErrorName(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return "none"
}
