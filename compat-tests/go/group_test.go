// Two member processes on six partitions. A member is this binary, started again with MEMBER set.
package compat

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	groupPartitions = 6
	session         = 6 * time.Second
)

func TestMain(m *testing.M) {
	if topic := os.Getenv("MEMBER"); topic != "" {
		runMember(topic)
		return
	}
	os.Exit(m.Run())
}

// runMember prints `PARTITION VALUE` for each record before it commits, leaves the group on
// SIGTERM, and dies without a word on SIGKILL. GROUP_MODE says how it is a member: static (as
// GROUP_INSTANCE), cooperative, or kip848.
func runMember(topic string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var lock sync.Mutex
	onRecord := func(partition int32, value []byte) {
		lock.Lock()
		defer lock.Unlock()
		os.Stdout.Write(fmt.Appendf(nil, "%d %s\n", partition, value))
	}
	err := newClient(os.Getenv("BOOTSTRAP")).Member(ctx, topic, topic, session, onRecord)
	if err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

type place struct{ partition, round int }

type member struct {
	process *exec.Cmd
	done    chan struct{}
	lock    sync.Mutex
	seen    map[place]int
}

// The member's mode, and its name where that is static.
func mode() string     { return os.Getenv("GROUP_MODE") }
func instance() string { return os.Getenv("GROUP_INSTANCE") }

func startMember(t *testing.T, topic, mode string, number int) *member {
	m := &member{process: exec.Command(os.Args[0]), done: make(chan struct{}), seen: map[place]int{}}
	m.process.Env = append(os.Environ(), "MEMBER="+topic, "GROUP_MODE="+mode,
		fmt.Sprintf("GROUP_INSTANCE=member-%d", number))
	m.process.Stderr = os.Stderr
	output, err := m.process.StdoutPipe()
	must(t, err)
	must(t, m.process.Start())
	t.Cleanup(func() { m.process.Process.Kill() })
	go func() {
		defer close(m.done)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var at place
			if n, _ := fmt.Sscan(lines.Text(), &at.partition, &at.round); n == 2 {
				m.lock.Lock()
				m.seen[at]++
				m.lock.Unlock()
			}
		}
	}()
	return m
}

// partitionsOf are those whose record of the round the member has processed.
func (m *member) partitionsOf(round int) map[int]bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	found := map[int]bool{}
	for at := range m.seen {
		if at.round == round {
			found[at.partition] = true
		}
	}
	return found
}

func (m *member) leave(t *testing.T) {
	must(t, m.process.Process.Signal(syscall.SIGTERM))
	<-m.done
	must(t, m.process.Wait())
}

func (m *member) die() {
	m.process.Process.Kill()
	<-m.done
	m.process.Wait()
}

type group struct {
	t       *testing.T
	client  Client
	topic   string
	rounds  int
	members []*member
}

func newGroup(t *testing.T, c Client, topic, mode string) *group {
	must(t, c.CreateTopic(topic, groupPartitions))
	members := []*member{startMember(t, topic, mode, 0), startMember(t, topic, mode, 1)}
	return &group{t: t, client: c, topic: topic, members: members}
}

// restartStatic kills the first member and starts it anew under its name.
func (g *group) restartStatic() {
	g.members[0].die()
	before := g.members[0].seen
	g.members[0] = startMember(g.t, g.topic, "static", 0)
	g.members[0].lock.Lock()
	defer g.members[0].lock.Unlock()
	for at, count := range before {
		g.members[0].seen[at] += count
	}
}

// round sends a record to each partition and waits until all six are processed.
func (g *group) round() []map[int]bool {
	records := make([]Record, groupPartitions)
	for i := range records {
		records[i] = Record{Partition: int32(i), Value: fmt.Appendf(nil, "%d", g.rounds)}
	}
	produce(g.t, g.client, g.topic, records)
	g.rounds++
	deadline := time.Now().Add(20 * time.Second)
	for {
		first := g.members[0].partitionsOf(g.rounds - 1)
		second := g.members[1].partitionsOf(g.rounds - 1)
		all := map[int]bool{}
		for _, found := range []map[int]bool{first, second} {
			for partition := range found {
				all[partition] = true
			}
		}
		if len(all) == groupPartitions || time.Now().After(deadline) {
			return []map[int]bool{first, second}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// untilShared waits until each of the two processes three partitions.
func (g *group) untilShared() {
	deadline := time.Now().Add(90 * time.Second)
	for {
		got := g.round()
		if len(got[0]) == 3 && len(got[1]) == 3 {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("they do not share: %v", got)
		}
	}
}

// counts says how often each record was processed.
func (g *group) counts() map[place]int {
	counts := map[place]int{}
	for _, m := range g.members {
		m.lock.Lock()
		for at, count := range m.seen {
			counts[at] += count
		}
		m.lock.Unlock()
	}
	return counts
}

// untilCommitted waits until all that was sent is committed.
func (g *group) untilCommitted() {
	deadline := time.Now().Add(20 * time.Second)
	for {
		committed, err := g.client.Committed(g.topic, g.topic, groupPartitions)
		must(g.t, err)
		isBehind := func(offset int64) bool { return offset != int64(g.rounds) }
		if !slices.ContainsFunc(committed, isBehind) {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("they do not commit: %v of %d", committed, g.rounds)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// rewind rewinds the group; what is processed again then is the round first and all behind it.
func (g *group) rewind(how string, first int) {
	before := g.counts()
	command := exec.Command("sh", "-c", os.Getenv("REWIND")+" "+g.topic+" "+how)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	must(g.t, command.Run())
	want := map[place]bool{}
	for round := first; round < g.rounds; round++ {
		for partition := range groupPartitions {
			want[place{partition, round}] = true
		}
	}
	deadline := time.Now().Add(40 * time.Second)
	for {
		again := map[place]bool{}
		missing := len(want)
		for at, count := range g.counts() {
			if count > before[at] {
				again[at] = true
				if want[at] {
					missing--
				}
			}
		}
		if missing == 0 {
			equal(g.t, again, want)
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("read again: %v", again)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (g *group) checkAllProcessed() {
	for round := range g.rounds {
		for partition := range groupPartitions {
			at := place{partition, round}
			if g.members[0].seen[at]+g.members[1].seen[at] == 0 {
				g.t.Fatalf("nobody processed %v of %d rounds", at, g.rounds)
			}
		}
	}
	committed, err := g.client.Committed(g.topic, g.topic, groupPartitions)
	must(g.t, err)
	want := make([]int64, groupPartitions)
	for i := range want {
		want[i] = int64(g.rounds)
	}
	equal(g.t, committed, want)
}
