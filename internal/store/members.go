package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/cluster"
)

// Members are the records of the bridges that share a NATS and a root, in a
// stream of their own. It implements [cluster.Stream].
type Members struct {
	nc     *connection
	config jetstream.StreamConfig
	nodes  string // prefix of the subjects of records
	proofs string // prefix of the subjects of proofs
}

var _ cluster.Stream = (*Members)(nil)

// proofLife is the time that a candidate's message stays.
const proofLife = time.Minute

// HasMembers reports whether there is a stream of members, which bridges of a
// prefix make before anything else.
func HasMembers(ctx context.Context, conn *nats.Conn, prefix string) (bool, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	err = insist(ctx, func(ctx context.Context) error {
		_, err := js.Stream(ctx, prefix+membersStream)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	return err == nil, err
}

// membersStream ends the name of the stream of members.
const membersStream = "-cluster"

// OpenMembers makes the stream of the members if it is missing. While NATS
// cannot answer, as while the servers of a cluster elect a leader, it is tried
// again until ctx ends; waiting is called with the reason.
func OpenMembers(ctx context.Context, conn *nats.Conn, prefix string, replicas int, waiting func(error)) (*Members, error) {
	if !prefixRule.MatchString(prefix) {
		return nil, fmt.Errorf("store: the prefix %q must match %s", prefix, prefixRule)
	}
	m := &Members{nodes: prefix + ".cluster.node.", proofs: prefix + ".cluster.proof."}
	m.config = jetstream.StreamConfig{
		Name:              prefix + membersStream,
		Description:       "AI Bridge: which bridges are alive",
		Subjects:          []string{m.nodes + "*", m.proofs + "*"},
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowMsgTTL:       true, // for members that have ended
	}
	for err := m.make(ctx, conn); err != nil; err = m.make(ctx, conn) {
		if !Passing(err) {
			return nil, err
		}
		waiting(err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.nc = newConnection(conn)
	return m, nil
}

// make makes the stream. One that is there stays as it is: whether this bridge
// fits to those that have made it is not known yet.
func (m *Members) make(ctx context.Context, conn *nats.Conn) error {
	if there, err := HasMembers(ctx, conn, strings.TrimSuffix(m.config.Name, membersStream)); there || err != nil {
		return err
	}
	return makeStream(ctx, conn, m.config)
}

// Adjust gives the stream as many copies as this bridge has configured, once it works.
func (m *Members) Adjust(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return makeStream(ctx, m.nc.conn, m.config)
}

// Close stops looking after the connection.
func (m *Members) Close() { m.nc.close() }

// Connected implements [cluster.Stream].
func (m *Members) Connected() bool { return m.nc.current().isUp() }

// Write implements [cluster.Stream].
func (m *Members) Write(ctx context.Context, id string, record []byte, after uint64, life time.Duration) (uint64, error) {
	header := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(after, 10)}}
	if life > 0 {
		header[jetstream.MsgTTLHeader] = []string{life.String()}
	}
	return m.store(ctx, &nats.Msg{Subject: m.nodes + encodeKey(id), Header: header, Data: record})
}

// Prove implements [cluster.Stream].
func (m *Members) Prove(ctx context.Context, instance string) (uint64, error) {
	return m.store(ctx, &nats.Msg{Subject: m.proofs + encodeKey(instance), Header: nats.Header{jetstream.MsgTTLHeader: {proofLife.String()}}})
}

func (m *Members) store(ctx context.Context, msg *nats.Msg) (uint64, error) {
	ack, err := storeMessage(ctx, m.nc, msg)
	if errors.Is(err, errConflict) {
		return 0, cluster.ErrTaken
	}
	return ack.Sequence, err
}

// Read implements [cluster.Stream].
func (m *Members) Read(ctx context.Context, id string) ([]byte, uint64, error) {
	found, err := lastMessage(ctx, m.nc, m.config.Name, m.nodes+encodeKey(id))
	if err != nil || found == nil {
		return nil, 0, err
	}
	return found.Data, found.Sequence, nil
}

// Follow implements [cluster.Stream].
func (m *Members) Follow(ctx context.Context, current func(), each func(id string, revision uint64, record []byte)) error {
	c, err := consume(ctx, m.nc, m.config.Name, 1, askFirst)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.drain(func(msg message) error { return m.tell(msg, each) }); err != nil {
		return err
	}
	current()
	for {
		msg, err := c.next()
		if err == nil {
			err = m.tell(msg, each)
		}
		if err != nil {
			return err
		}
	}
}

func (m *Members) tell(msg message, each func(id string, revision uint64, record []byte)) error {
	token, isRecord := strings.CutPrefix(msg.Subject, m.nodes)
	if !isRecord {
		each("", msg.seq, nil)
		return nil
	}
	id, err := decodeKey(token)
	if err != nil {
		return fmt.Errorf("store: a record of the cluster at %q: %w", msg.Subject, err)
	}
	each(id, msg.seq, msg.Data)
	return nil
}

// The codes of NATS for fewer servers than a stream is to have copies.
const (
	noPeers      = 10005
	notClustered = 10074 // more than one copy, and one server
)

// Unplaced reports whether NATS has fewer servers than a stream is to have copies,
// as while its servers do not know each other yet.
func Unplaced(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == noPeers
}

// TooFewServers reports whether NATS can never keep as many copies of a stream as it
// is to have, unless servers come.
func TooFewServers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == noPeers || api.ErrorCode == notClustered)
}

// Passing reports whether NATS could not be reached or not answer, as while the
// servers of a cluster start or elect leaders.
func Passing(err error) bool {
	var api *jetstream.APIError
	var refused *apiError
	switch {
	case errors.As(err, &api):
		return api.Code == http.StatusServiceUnavailable
	case errors.As(err, &refused):
		return refused.Code == http.StatusServiceUnavailable
	}
	return slices.ContainsFunc(passingErrors, func(known error) bool { return errors.Is(err, known) })
}

var passingErrors = []error{
	context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
	errNotConnected, errLinkLost,
}
