// What the scenarios ask of a client. Each client is a file of its own with a build tag of its
// own, so that a test binary holds one client and nothing of the others.
package compat

import (
	"context"
	"time"
)

const (
	timeout  = 30 * time.Second
	earliest = int64(-2)
	latest   = int64(-1)
)

type Header struct {
	Key   string
	Value []byte
}

// Record is what is sent, and what comes back with its offset. A zero timestamp means now.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
	Timestamp  time.Time
	Headers    []Header
}

// Options of a producer: a codec by Kafka's name, and the client's own limit when not zero.
type Options struct {
	Codec    string
	MaxBytes int
}

// Sender is an idempotent producer whose Send does not wait for the acknowledgement.
type Sender interface {
	Send(value []byte) error
	// Finish waits for all acknowledgements and says how many came.
	Finish() (int, error)
}

type Client interface {
	CreateTopic(topic string, partitions int32) error
	DeleteTopic(topic string) error
	// Partitions lists those with a leader; none for a topic that does not exist.
	Partitions(topic string) ([]int32, error)
	// Produce waits for all acknowledgements; the offsets are in the records' order.
	Produce(topic string, records []Record, options Options) ([]int64, error)
	Idempotent(topic string) (Sender, error)
	Consume(topic string, start int64, count int) ([]Record, error)
	// Tail consumes from the latest offset; the function returns what came within half a second.
	Tail(topic string) (func() []Record, error)
	OffsetFor(topic string, timestamp time.Time) (int64, error)
	// GroupTake takes records as a member, commits them and leaves.
	GroupTake(group, topic string, count int) ([]Record, error)
	// Committed is -1 where nothing is.
	Committed(group, topic string, partitions int32) ([]int64, error)
	// Member processes and commits until the context ends; then it leaves.
	Member(ctx context.Context, group, topic string, session time.Duration,
		onRecord func(partition int32, value []byte)) error
	// ErrorName is Kafka's name of what the broker refused with.
	ErrorName(err error) string
}
