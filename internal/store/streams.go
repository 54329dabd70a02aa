package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// askTimeout bounds questions about streams: there may be no server to answer.
	askTimeout = 5 * time.Second

	placeAttempts = 60 // after the first, to place a stream or to find one that was placed
	placePause    = 500 * time.Millisecond

	// askFirst bounds the first attempt. While the servers of a cluster elect the
	// leader of a stream, requests vanish, and one sent a moment later is answered.
	askFirst = time.Second
	askLast  = 16 * time.Second // the longest attempt
)

// names are the names under which the store's things are known to NATS.
type names struct {
	registry      string // stream behind the bucket of all tables
	registryRoot  string // prefix of the subjects of its keys
	claims        string
	claimsSubject string
	claimsEpoch   string
	claimsOf      []string // subjects of all bridges
	tally         string
	tallySubject  string
}

// newNames are the names of a bridge, shared by all bridges of its prefix except a node's
// own.
func newNames(prefix, node string) names {
	bucket := prefix + "-registry"
	n := names{
		registry:      "KV_" + bucket,
		registryRoot:  "$KV." + bucket + ".",
		claims:        prefix + "-claims",
		claimsSubject: prefix + ".claims",
		claimsEpoch:   prefix + ".claims.epoch",
		tally:         prefix + "-tally",
		tallySubject:  prefix + ".tally",
	}
	n.claimsOf = []string{n.claimsSubject, n.claimsEpoch, prefix + ".claims.node.*", prefix + ".claims.epochs.*"}
	if node != "" {
		n.claimsSubject, n.claimsEpoch = prefix+".claims.node."+encodeKey(node), prefix+".claims.epochs."+encodeKey(node)
	}
	return n
}

// makeStreams makes the streams, or brings their configuration up to date.
func (s *Store) makeStreams(ctx context.Context) error {
	registry := jetstream.StreamConfig{
		// The layout of a NATS key-value bucket, so that its tools can look.
		Name:               s.names.registry,
		Description:        "AI Bridge: agents, skills and all else that is registered",
		Subjects:           []string{s.names.registryRoot + ">"},
		MaxMsgsPerSubject:  1,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		Replicas:           s.options.Replicas,
		DenyDelete:         true,
		AllowRollup:        true,
		AllowDirect:        true,
		AllowMsgTTL:        true, // for delete markers
		AllowAtomicPublish: true,
	}
	claims := jetstream.StreamConfig{
		Name:        s.names.claims,
		Description: "AI Bridge: requests that were taken up and must not run again",
		Subjects:    s.names.claimsOf,
		MaxAge:      s.options.ClaimLife,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
		AllowMsgTTL: true,
	}
	tally := jetstream.StreamConfig{
		Name:        s.names.tally,
		Description: "AI Bridge: how many keys the registry had, to notice losses",
		Subjects:    []string{s.names.tallySubject},
		MaxMsgs:     1,
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
	}
	if err := s.makeStream(ctx, s.state, registry); err != nil {
		return err // the others would fail with the same
	}
	return errors.Join(s.makeStream(ctx, s.flow, claims), s.makeStream(ctx, s.flow, tally))
}

// makeStream makes a stream, or brings it up to date, and watches it.
func (s *Store) makeStream(ctx context.Context, l *connection, config jetstream.StreamConfig) error {
	err := untilPlaced(ctx, func() error { return makeStream(ctx, l.conn, config) })
	if err != nil {
		return err
	}
	s.pulse.add(l, &config)
	return nil
}

// untilPlaced makes a stream, again if there are not enough servers: those of a cluster
// that has just formed lose sight of each other for a moment. That there are enough is
// known, by the records of its members, which are made first.
func untilPlaced(ctx context.Context, make func() error) error {
	return whilePassing(ctx, Unplaced, make)
}

// inspectMade inspects a stream that was just made. A server that led the cluster
// until a moment ago does not know it.
func inspectMade(ctx context.Context, l *connection, stream string) (info *streamInfo, err error) {
	err = whilePassing(ctx, isMissing, func() (err error) {
		info, err = inspect(ctx, l, stream)
		return err
	})
	return info, err
}

// isMissing reports whether NATS answers that there is no such stream.
func isMissing(err error) bool {
	var refused *apiError
	return errors.As(err, &refused) && refused.Code == http.StatusNotFound
}

// whilePassing does something again while its error is one that passes.
func whilePassing(ctx context.Context, passing func(error) bool, do func() error) error {
	for left := placeAttempts; ; left-- {
		err := do()
		if left == 0 || !passing(err) {
			return err
		}
		select {
		case <-time.After(placePause):
		case <-ctx.Done():
			return err
		}
	}
}

func makeStream(ctx context.Context, conn *nats.Conn, config jetstream.StreamConfig) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	var stream jetstream.Stream
	err = insist(ctx, func(ctx context.Context) (err error) {
		stream, err = js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with another configuration
			stream, err = updateStream(ctx, js, config)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store: make stream %s: %w", config.Name, err)
	}
	// Servers before 2.12 ignore unknown settings.
	got := stream.CachedInfo().Config
	if got.AllowAtomicPublish != config.AllowAtomicPublish || got.AllowMsgTTL != config.AllowMsgTTL {
		return fmt.Errorf("store: stream %s: NATS server 2.12 or later is needed, this is %s", config.Name, conn.ConnectedServerVersion())
	}
	return nil
}

// updateStream gives a stream another configuration but its metadata.
func updateStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, config.Name)
	if err != nil {
		return nil, err
	}
	config.Metadata = stream.CachedInfo().Config.Metadata
	return js.UpdateStream(ctx, config)
}

// insist repeats an idempotent request to JetStream when there was no answer, or
// the answer that there is no leader: the servers of a cluster drop requests while
// they elect a leader, or make the same stream for another client.
func insist(ctx context.Context, ask func(context.Context) error) error {
	for patience := askFirst; ; patience *= 2 {
		attempt, done := context.WithTimeout(ctx, patience)
		err := ask(attempt)
		unanswered := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
		if leaderless(err) {
			unanswered = true
			<-attempt.Done()
		}
		done()
		if !unanswered || ctx.Err() != nil || patience >= askLast {
			return err
		}
	}
}

// leaderless reports whether the servers of a cluster answer that they have no leader.
func leaderless(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == noLeader
}

// noLeader is the code for the answer of a cluster's servers that they have no leader.
const noLeader = 10008

// streamInfo is the server's description of a stream.
type streamInfo struct {
	Config  jetstream.StreamConfig `json:"config"`
	Created time.Time              `json:"created"`
	Cluster *struct {
		Replicas []struct{} `json:"replicas"` // servers beside the leader
	} `json:"cluster"`
	State struct {
		Messages  uint64 `json:"messages"`
		Bytes     uint64 `json:"bytes"`
		FirstSeq  uint64 `json:"first_seq"`
		LastSeq   uint64 `json:"last_seq"`
		Consumers int    `json:"consumer_count"`
		// Lost counts the messages that the server dropped because it could not
		// read them.
		Lost *struct {
			Bytes uint64 `json:"bytes"`
		} `json:"lost"`
	} `json:"state"`
}

// inspect asks for a stream's configuration and state.
func inspect(ctx context.Context, l *connection, stream string) (*streamInfo, error) {
	var info struct {
		streamInfo
		Error *apiError `json:"error"`
	}
	if err := ask(ctx, l, "STREAM.INFO."+stream, nil, &info); err != nil {
		return nil, err
	}
	if info.Error != nil {
		return nil, info.Error
	}
	return &info.streamInfo, nil
}

// A storedMessage is a message as the stream's leader has it.
type storedMessage struct {
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// lastMessage asks for the last message of a subject; nil if there is none.
func lastMessage(ctx context.Context, l *connection, stream, subject string) (*storedMessage, error) {
	return getMessage(ctx, l, stream, map[string]any{"last_by_subj": subject})
}

// nextMessage asks for the first message from a sequence on whose subject
// matches; nil if there is none.
func nextMessage(ctx context.Context, l *connection, stream, subject string, from uint64) (*storedMessage, error) {
	return getMessage(ctx, l, stream, map[string]any{"next_by_subj": subject, "seq": from})
}

func getMessage(ctx context.Context, l *connection, stream string, query map[string]any) (*storedMessage, error) {
	var got struct {
		Error   *apiError      `json:"error"`
		Message *storedMessage `json:"message"`
	}
	if err := ask(ctx, l, "STREAM.MSG.GET."+stream, query, &got); err != nil {
		return nil, err
	}
	if got.Error != nil {
		if got.Error.Code == http.StatusNotFound {
			return nil, nil
		}
		return nil, got.Error
	}
	return got.Message, nil
}

// ask puts a question to JetStream's API.
func ask(ctx context.Context, l *connection, what string, query, answer any) error {
	msg := &nats.Msg{Subject: "$JS.API." + what}
	if query != nil {
		data, err := json.Marshal(query)
		if err != nil {
			return err
		}
		msg.Data = data
	}
	ctx, cancel := bounded(ctx, askTimeout)
	defer cancel()
	for timeout := askFirst; ; timeout = min(2*timeout, askTimeout) {
		data, again, err := askOnce(ctx, l, msg, timeout)
		if again {
			continue
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, answer); err != nil {
			return fmt.Errorf("strange answer to %s: %w", what, err)
		}
		return nil
	}
}

// apiError is the refusal of JetStream.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Error is the description and the code.
func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Error codes of JetStream.
const (
	jsWrongLastSequence         = 10071
	jsWrongLastSequenceConstant = 10164
)
