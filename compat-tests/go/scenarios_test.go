// The scenarios of ../matrix/scenarios.toml, for the client that the binary was built with.
package compat

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// An hour ago: no record is old enough for retention.
var start = time.UnixMilli(time.Now().UnixMilli() - 3_600_000)

var scenarios = map[string]func(*testing.T, Client, string){
	"create-topic":       createTopic,
	"codec-none":         roundTrip("none"),
	"codec-gzip":         roundTrip("gzip"),
	"codec-snappy":       roundTrip("snappy"),
	"codec-lz4":          roundTrip("lz4"),
	"codec-zstd":         roundTrip("zstd"),
	"headers":            headers,
	"null-key":           nullKey,
	"null-value":         nullValue,
	"record-1mb":         record1MB,
	"small-10000":        small10000,
	"from-earliest":      fromEarliest,
	"from-latest":        fromLatest,
	"from-timestamp":     fromTimestamp,
	"from-offset":        fromOffset,
	"idempotent-restart": idempotentRestart,
	"auto-create":        autoCreate,
	"too-large":          tooLarge,
	"invalid-name":       invalidName,
	"recreate":           recreate,
	"group-commit":       groupCommit,
	"group-share":        groupShare,
	"group-takeover":     func(t *testing.T, c Client, topic string) { takeover(t, c, topic, "") },
	"group-static":       groupStatic,
	"group-cooperative":  func(t *testing.T, c Client, topic string) { takeover(t, c, topic, "cooperative") },
	"group-kip848":       func(t *testing.T, c Client, topic string) { takeover(t, c, topic, "kip848") },
	"group-rewind":       groupRewind,
}

func TestScenarios(t *testing.T) {
	client := newClient(os.Getenv("BOOTSTRAP"))
	for _, name := range strings.Fields(os.Getenv("SCENARIOS")) {
		run, known := scenarios[name]
		if !known {
			continue
		}
		topic := fmt.Sprintf("go-%s-%x", name, time.Now().UnixNano())
		passed := t.Run(name, func(t *testing.T) { run(t, client, topic) })
		report(t, name, passed)
	}
}

func report(t *testing.T, name string, passed bool) {
	file, err := os.OpenFile(os.Getenv("RESULTS"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	must(t, err)
	defer file.Close()
	result := "fail"
	if passed {
		result = "pass"
	}
	fmt.Fprintln(file, result, name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
		t.Fatalf("got %.300v, want %.300v", got, want)
	}
}

func numbered(count int, prefix string) []Record {
	records := make([]Record, count)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, "%s%d", prefix, i)
	}
	return records
}

func upTo(count int) []int64 {
	offsets := make([]int64, count)
	for i := range offsets {
		offsets[i] = int64(i)
	}
	return offsets
}

func produce(t *testing.T, c Client, topic string, records []Record) {
	t.Helper()
	_, err := c.Produce(topic, records, Options{})
	must(t, err)
}

func consume(t *testing.T, c Client, topic string, start int64, count int) []Record {
	t.Helper()
	records, err := c.Consume(topic, start, count)
	must(t, err)
	equal(t, len(records), count)
	return records
}

// expectNumbered wants values that count up, at offsets that do.
func expectNumbered(t *testing.T, records []Record, first int) {
	t.Helper()
	for i, record := range records {
		equal(t, string(record.Value), fmt.Sprint(first+i))
		equal(t, record.Offset, int64(first+i))
	}
}

func createTopic(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 3))
	found, err := c.Partitions(topic)
	must(t, err)
	equal(t, found, []int32{0, 1, 2})
}

func roundTrip(codec string) func(*testing.T, Client, string) {
	return func(t *testing.T, c Client, topic string) {
		must(t, c.CreateTopic(topic, 1))
		sent := make([]Record, 1000)
		for i := range sent {
			sent[i].Key = fmt.Appendf(nil, "key %d", i)
			sent[i].Value = fmt.Appendf(nil, "value %d %s", i, strings.Repeat("x", 100))
			sent[i].Timestamp = start.Add(time.Duration(i) * time.Millisecond)
		}
		offsets, err := c.Produce(topic, sent, Options{Codec: codec})
		must(t, err)
		equal(t, offsets, upTo(1000))
		for i, record := range consume(t, c, topic, earliest, 1000) {
			equal(t, string(record.Key), string(sent[i].Key))
			equal(t, string(record.Value), string(sent[i].Value))
			equal(t, record.Timestamp.UnixMilli(), sent[i].Timestamp.UnixMilli())
			equal(t, record.Offset, int64(i))
		}
	}
}

func headers(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	sent := []Header{{"a", []byte("1")}, {"b", []byte("2")}, {"a", []byte("3")}, {"empty", []byte{}}}
	produce(t, c, topic, []Record{{Key: []byte("k"), Value: []byte("v"), Headers: sent}})
	equal(t, consume(t, c, topic, earliest, 1)[0].Headers, sent)
}

func nullKey(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, []Record{{Value: []byte("v")}})
	record := consume(t, c, topic, earliest, 1)[0]
	equal(t, record.Key == nil && string(record.Value) == "v", true)
}

func nullValue(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, []Record{{Key: []byte("k")}})
	record := consume(t, c, topic, earliest, 1)[0]
	equal(t, string(record.Key) == "k" && record.Value == nil, true)
}

func record1MB(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	value := make([]byte, 1_000_000)
	rand.Read(value)
	_, err := c.Produce(topic, []Record{{Value: value}}, Options{MaxBytes: 1_048_576})
	must(t, err)
	equal(t, bytes.Equal(consume(t, c, topic, earliest, 1)[0].Value, value), true)
}

func small10000(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(10_000, ""))
	expectNumbered(t, consume(t, c, topic, earliest, 10_000), 0)
}

func fromEarliest(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(10, ""))
	expectNumbered(t, consume(t, c, topic, earliest, 10), 0)
}

func fromLatest(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(10, ""))
	poll, err := c.Tail(topic)
	must(t, err)
	seen := poll()
	for deadline := time.Now().Add(timeout); len(seen) == 0 && time.Now().Before(deadline); {
		produce(t, c, topic, []Record{{Value: []byte("after")}})
		seen = poll()
	}
	equal(t, len(seen) > 0, true)
	for _, record := range seen {
		equal(t, string(record.Value), "after")
		equal(t, record.Offset >= 10, true)
	}
}

func fromTimestamp(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	records := numbered(100, "")
	for i := range records {
		records[i].Timestamp = start.Add(time.Duration(10*i) * time.Millisecond)
	}
	produce(t, c, topic, records)
	found, err := c.OffsetFor(topic, start.Add(411*time.Millisecond))
	must(t, err)
	equal(t, found, int64(42))
	expectNumbered(t, consume(t, c, topic, found, 1), 42)
}

func fromOffset(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(10, ""))
	expectNumbered(t, consume(t, c, topic, 5, 5), 5)
}

func idempotentRestart(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	sender, err := c.Idempotent(topic)
	must(t, err)
	count := 0
	send := func() {
		must(t, sender.Send(fmt.Appendf(nil, "%d", count)))
		count++
	}
	for range 200 {
		send()
	}
	restarted := make(chan error, 1)
	go func() { restarted <- exec.Command("sh", "-c", os.Getenv("RESTART_BROKER")).Run() }()
	for waiting := true; waiting; {
		select {
		case err := <-restarted:
			must(t, err)
			waiting = false
		case <-time.After(10 * time.Millisecond):
			send()
		}
	}
	for range 200 {
		send()
	}
	acknowledged, err := sender.Finish()
	must(t, err)
	equal(t, acknowledged, count)
	expectNumbered(t, consume(t, c, topic, earliest, count), 0)
	offsets, err := c.Produce(topic, []Record{{Value: []byte("end")}}, Options{})
	must(t, err)
	equal(t, offsets, []int64{int64(count)})
}

func autoCreate(t *testing.T, c Client, topic string) {
	produce(t, c, topic, numbered(1, ""))
	expectNumbered(t, consume(t, c, topic, earliest, 1), 0)
}

func tooLarge(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	value := make([]byte, 2_000_000)
	rand.Read(value)
	_, err := c.Produce(topic, []Record{{Value: value}}, Options{MaxBytes: 10_000_000})
	equal(t, c.ErrorName(err), "MESSAGE_TOO_LARGE")
	produce(t, c, topic, numbered(1, ""))
	expectNumbered(t, consume(t, c, topic, earliest, 1), 0)
}

func invalidName(t *testing.T, c Client, _ string) {
	equal(t, c.ErrorName(c.CreateTopic("no blanks", 1)), "INVALID_TOPIC_EXCEPTION")
}

func recreate(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(3, "old "))
	must(t, c.DeleteTopic(topic))
	deadline := time.Now().Add(timeout)
	for {
		found, err := c.Partitions(topic)
		must(t, err)
		if len(found) == 0 {
			break
		}
		equal(t, time.Now().Before(deadline), true)
		time.Sleep(20 * time.Millisecond)
	}
	must(t, c.CreateTopic(topic, 2))
	produce(t, c, topic, numbered(1, ""))
	expectNumbered(t, consume(t, c, topic, earliest, 1), 0)
	found, err := c.Partitions(topic)
	must(t, err)
	equal(t, found, []int32{0, 1})
}

func groupCommit(t *testing.T, c Client, topic string) {
	must(t, c.CreateTopic(topic, 1))
	produce(t, c, topic, numbered(100, ""))
	for _, first := range []int{0, 50} {
		records, err := c.GroupTake(topic, topic, 50)
		must(t, err)
		equal(t, len(records), 50)
		expectNumbered(t, records, first)
		committed, err := c.Committed(topic, topic, 1)
		must(t, err)
		equal(t, committed, []int64{int64(first + 50)})
	}
}

func groupShare(t *testing.T, c Client, topic string) {
	group := newGroup(t, c, topic, "")
	group.untilShared()
	for _, member := range group.members {
		member.leave(t)
	}
	group.checkAllProcessed()
}

func groupRewind(t *testing.T, c Client, topic string) {
	group := newGroup(t, c, topic, "")
	group.untilShared()
	for range 4 {
		group.round()
	}
	group.untilCommitted()
	before := group.rounds
	group.rewind(fmt.Sprintf("--to-offset %d", before-3), before-3)
	group.round()
	group.rewind("--undo", before)
	group.untilCommitted()
	for _, member := range group.members {
		member.leave(t)
	}
	group.checkAllProcessed()
}

func groupStatic(t *testing.T, c Client, topic string) {
	group := newGroup(t, c, topic, "static")
	group.untilShared()
	last := group.rounds - 1
	first, second := group.members[0].partitionsOf(last), group.members[1].partitionsOf(last)
	group.restartStatic()
	// Whoever rejoined would have been given other partitions, or none for a while.
	for got := group.round(); !maps.Equal(got[0], first); got = group.round() {
		equal(t, got[1], second)
	}
	equal(t, group.round(), []map[int]bool{first, second})
	group.members[0].leave(t)
	group.members[1].leave(t)
	group.checkAllProcessed()
}

func takeover(t *testing.T, c Client, topic, mode string) {
	group := newGroup(t, c, topic, mode)
	group.untilShared()
	group.members[0].die()
	begun := time.Now()
	for len(group.round()[1]) != groupPartitions {
		equal(t, time.Since(begun) < timeout, true)
	}
	// The session timeout, a heartbeat for the news, and a rebalance.
	if took := time.Since(begun); took > session+6*time.Second {
		t.Fatalf("it took %s", took)
	}
	group.members[1].leave(t)
	group.checkAllProcessed()
}

func sorted(partitions []int32) []int32 {
	slices.Sort(partitions)
	return partitions
}
