package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

// RunLogs are the logs of runs of workflows, which all bridges of a cluster see: a
// subject for each run, in one stream. A process names the last message that it
// knows of the run when it appends, so that one from which the run was taken appends
// nothing any more.
type RunLogs struct {
	store   *Store
	stream  string
	subject string
	writer  []byte // of this process's messages
	most    int    // bytes of a record that go into a message at most
}

// OpenRunLogs makes the stream if it is missing.
func (s *Store) OpenRunLogs(ctx context.Context) (*RunLogs, error) {
	id := nuid.Next()
	l := &RunLogs{
		store: s, stream: s.options.Prefix + "-runs", subject: s.options.Prefix + ".runs.",
		writer: []byte(id[len(id)-writerSize:]), most: maxMessage - partHead,
	}
	return l, s.makeStream(ctx, s.state, jetstream.StreamConfig{
		Name:        l.stream,
		Description: "AI Bridge: what runs of workflows did, and their files",
		Subjects:    []string{l.subject + "*"},
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
		AllowDirect: true,
	})
}

func (l *RunLogs) of(run string) string { return l.subject + encodeKey(run) }

// Append stores a record of a run behind the message numbered last, 0 for none, and
// returns the number of its own last message. It fails with 3003 if another message
// is the last one; then a part of the record may be stored, which readers pass over.
// After another error the same record may be appended again, behind the same
// message.
func (l *RunLogs) Append(ctx context.Context, run string, last uint64, record []byte) (uint64, error) {
	if err := l.store.usable(ctx); err != nil {
		return 0, err
	}
	for at := 0; ; {
		next, took, err := l.put(ctx, run, last, record, at)
		if err != nil {
			return 0, err
		}
		if last, at = next, at+took; at >= len(record) {
			return last, nil
		}
	}
}

// part is the message with the part of a record that begins at a byte and is as long as
// told.
func (l *RunLogs) part(record []byte, at, length int) []byte {
	end := at + length
	kind := partMiddle
	switch {
	case at == 0 && end == len(record):
		kind = partWhole
	case at == 0:
		kind = partFirst
	case end == len(record):
		kind = partLast
	}
	part := append(make([]byte, 0, partHead+length), kind)
	return append(append(part, l.writer...), record[at:end]...)
}

// put stores one message with what fits of a record from a byte on, and returns how much
// that is. One that is there already, because its confirmation was lost, is not stored
// again, also if another length fits by now.
func (l *RunLogs) put(ctx context.Context, run string, last uint64, record []byte, at int) (seq uint64, took int, err error) {
	for range writeAttempts {
		took = min(roomOf(l.store.state, l.most), len(record)-at)
		seq, err := l.publish(ctx, run, last, l.part(record, at, took))
		if !errors.Is(err, errConflict) {
			return seq, took, err
		}
		m, err := nextMessage(ctx, l.store.state, l.stream, l.of(run), last+1)
		switch {
		case err != nil:
			return 0, 0, unavailable(err)
		case m == nil: // the end has changed, and nothing is behind it: it was purged, or an append is under way
			if seq, err := l.last(ctx, run); err != nil || seq != last {
				return 0, 0, errors.Join(err, taken(run))
			}
			continue
		}
		took = len(m.Data) - partHead
		if took >= 0 && took <= len(record)-at && bytes.Equal(m.Data, l.part(record, at, took)) {
			return m.Sequence, took, nil
		}
		return 0, 0, taken(run)
	}
	return 0, 0, protocol.Errorf(protocol.StoreUnavailable, "the log of a run is being written by others")
}

func taken(run string) error {
	return protocol.Errorf(protocol.RevisionConflict, "the log of the run goes on elsewhere").With("run_id", run)
}

func (l *RunLogs) publish(ctx context.Context, run string, last uint64, part []byte) (uint64, error) {
	ctx, cancel := bounded(ctx, l.store.options.WriteTimeout)
	defer cancel()
	ack, err := l.store.store(ctx, l.store.state, &nats.Msg{
		Subject: l.of(run), Data: part,
		Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(last, 10)}},
	})
	return ack.Sequence, err
}

// last is the number of the last message of a run, 0 for none.
func (l *RunLogs) last(ctx context.Context, run string) (uint64, error) {
	m, err := lastMessage(ctx, l.store.state, l.stream, l.of(run))
	if err != nil {
		return 0, unavailable(err)
	}
	if m == nil {
		return 0, nil
	}
	return m.Sequence, nil
}

// Read yields the records of a run behind the message numbered after, the last one of a record, in their
// order, each with the number of its last message, and returns the number of the
// last message that there is. Records that were not stored to their end are passed
// over. A record is valid for good.
func (l *RunLogs) Read(ctx context.Context, run string, after uint64, yield func(at uint64, record []byte) error) (last uint64, err error) {
	end, err := l.last(ctx, run)
	if err != nil {
		return 0, err
	}
	parts := partReader{stream: l.stream}
	for last = after; last < end; {
		before := last
		err := l.some(ctx, run, last+1, func(seq uint64, data []byte) error {
			last, parts.at = seq, 0 // others' messages are in between
			r, whole, err := parts.add(message{Msg: &nats.Msg{Data: data}, seq: seq})
			if err != nil || !whole {
				return err
			}
			return yield(seq, r.body)
		})
		switch {
		case err != nil:
			return 0, err
		case last > before:
			continue
		}
		if err := l.wait(ctx); err != nil { // the server that answers may be behind
			return 0, err
		}
		if now, err := l.last(ctx, run); err != nil || now < end { // the run was removed meanwhile
			return 0, errors.Join(err, taken(run))
		}
	}
	return last, nil
}

// wait lets a server catch up.
func (l *RunLogs) wait(ctx context.Context) error {
	select {
	case <-time.After(blobLag):
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

const (
	logBatch = 256     // messages asked for at once
	logBytes = 4 << 20 // bytes, as far as one message allows
)

// some asks once for messages of a run from a number on.
func (l *RunLogs) some(ctx context.Context, run string, from uint64, yield func(seq uint64, data []byte) error) error {
	nc := l.store.state
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	session, err := nc.connected(ctx)
	if err != nil {
		return unavailable(err)
	}
	ctx, done := session.during(ctx)
	defer done()
	query, err := json.Marshal(map[string]any{"next_by_subj": l.of(run), "seq": from, "batch": logBatch, "max_bytes": logBytes})
	if err != nil {
		return err
	}
	inbox := nc.conn.NewInbox()
	answers, err := nc.conn.SubscribeSync(inbox)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := nc.conn.PublishRequest("$JS.API.DIRECT.GET."+l.stream, inbox, query); err != nil {
		return unavailable(err)
	}
	for range logBatch {
		msg, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return unavailable(err)
		}
		if len(msg.Data) == 0 {
			switch msg.Header.Get("Status") {
			case strconv.Itoa(http.StatusNoContent), strconv.Itoa(http.StatusNotFound):
				return nil
			}
			return protocol.Errorf(protocol.StoreUnavailable, "the store does not tell the log of a run: %s %s", msg.Header.Get("Status"), msg.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return protocol.Wrap(protocol.StoreUnavailable, err, "the store answers strangely")
		}
		if err := yield(seq, msg.Data); err != nil {
			return err
		}
	}
	return nil
}

// Remove forgets the log of a run.
func (l *RunLogs) Remove(ctx context.Context, run string) error {
	if err := purge(ctx, l.store.state, l.stream, jetstream.WithPurgeSubject(l.of(run))); err != nil {
		return unavailable(err)
	}
	return nil
}

// All lists the runs that have records.
func (l *RunLogs) All(ctx context.Context) (runs []string, err error) {
	for met := 0; ; {
		var info struct {
			Error *apiError `json:"error"`
			Total int       `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		query := map[string]any{"subjects_filter": l.subject + "*", "offset": met}
		if err := ask(ctx, l.store.state, "STREAM.INFO."+l.stream, query, &info); err != nil {
			return nil, unavailable(err)
		}
		if info.Error != nil {
			return nil, unavailable(info.Error)
		}
		for subject := range info.State.Subjects {
			if run, err := decodeKey(strings.TrimPrefix(subject, l.subject)); err == nil {
				runs = append(runs, run)
			}
		}
		if met += len(info.State.Subjects); len(info.State.Subjects) == 0 || met >= info.Total {
			return runs, nil
		}
	}
}
