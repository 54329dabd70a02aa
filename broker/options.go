package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Broker].
type Options struct {
	// Authenticate yields the principal behind a CONNECT, or an error that
	// refuses it. The answer never tells the client which part was wrong.
	Authenticate func(ctx context.Context, shown Credentials) (*protocol.Principal, error)
	// Recognise is asked before, if it is not nil, by the reader of the
	// connection: it yields the principal behind credentials that are right
	// beyond doubt and need no waiting, and nil to have Authenticate asked.
	// It must be fast and must not block.
	Recognise   func(shown Credentials) *protocol.Principal
	Permissions Permissions
	// MayWill says whether the Will of a client that is gone is to be published
	// at all, before its topic is looked at; nil lets all be. It must not block.
	MayWill   func(*Client) Verdict
	Presence  Presence // optional
	Quota     Quota    // optional
	Log       *slog.Logger
	MaxPacket int // bytes, default 1 MiB and some room for the topic and properties
	Limits    Limits

	// Journal makes sessions, retained messages and wills outlive the
	// process; nil keeps them in memory only.
	Journal Journal
	// Peers are the other bridges of a cluster; nil for a bridge that is alone.
	Peers Peers
	// Retained has the retained messages of the clients of all of them; with
	// Peers only.
	Retained RetainedLog
	// Directory knows which of the bridges has a session; with Peers only.
	Directory Directory
	// Exclusives decide which session has a topic alone; with Peers only.
	Exclusives Exclusives
	// Conditions has what stands behind a question mark in the filter of a subscription
	// be a condition on the user properties of messages, see package condition.
	Conditions bool
	// Lending begins the filters whose subscribers are lent messages, see [Broker.Lend];
	// "" for none. Such a subscription has the filter alone: whoever lends looks at
	// neither groups nor conditions.
	Lending string
	// Full reports whether nothing new may be stored; optional. No more topics
	// then get a retained message, nothing is kept for clients that are away,
	// and publishers of QoS 1 and 2 are told so where nobody else has their
	// message. It is asked for every such message and must be cheap.
	Full func() bool
	// Enhanced offers authentication methods of MQTT 5 by name; optional.
	Enhanced map[string]Method
	// Renewed is told of a client that has authenticated again, once its new
	// principal counts; optional. It must not block.
	Renewed func(c *Client, before *protocol.Principal)
	// Refused is told of clients that are refused something or disconnected;
	// optional. Locks of the broker are held: it must not block, and not call
	// the broker.
	Refused func(Refusal)
	// Gate counts connections, with those of other doors of the process; nil
	// lets everybody in.
	Gate *gate.Gate
	// Clock tells the time; nil makes one that goes with the system's.
	Clock *clock.Clock
	// Registerer receives the broker's metrics; optional.
	Registerer prometheus.Registerer
	// Version of the program, for $SYS/broker/version.
	Version string
	// Waiting bounds the queue of a session by its own limits, or by those of all if
	// it answers nil; optional. It is asked when a session is made or restored.
	Waiting func(SessionID) *Waiting
	// Mark is told, in the user property [MarkProperty], to clients that show their
	// own mark in it: bridges of messages then recognise each other. Empty for none.
	Mark string
	// SysInterval is the interval at which $SYS topics are published; 0 means 10 s, less
	// never.
	SysInterval time.Duration
	// ResponseInfo is the answer to a client that asks for response
	// information, usually the root of its response topics; optional.
	ResponseInfo func(*Client) string
	// ConnackProperties are user properties for the CONNACK of a client that has shown
	// some in its CONNECT; optional. They are left out of a packet that would be too
	// large for the client.
	ConnackProperties func(c *Client, shown []protocol.UserProperty) []protocol.UserProperty
	// Readers is the number of readers that share plain TCP connections on
	// Linux; 0 chooses by the number of processors, less than 0 gives every
	// connection a goroutine.
	Readers int
	// Awaiting is the number of goroutines that wait for what readers bring, such as
	// those of HTTP requests whose answers come over MQTT; nil if there are none. It is
	// asked in each turn of a reader.
	Awaiting func() int

	checkpointAfter int           // bytes of journal log; tests make it small
	linger          time.Duration // see lingerTime; tests make it long
	adopter         *Broker       // see [Broker.Adopt]; nil for a broker of its own
}

// Limits bound what clients may take. Zero fields get the defaults named.
type Limits struct {
	ConnectTimeout  time.Duration // from accept to CONNECT; 10 s
	EntryTimeout    time.Duration // of a client that is authenticated, until its session is here from another bridge; 25 s
	WriteTimeout    time.Duration // without progress on a full socket; 60 s
	SessionExpiry   time.Duration // longest a session may be kept; 7 days
	KeepAlive       time.Duration // longest a client may ask for, also for 0 when set; no limit
	ReceiveMaximum  int           // unacknowledged publishes a client may have with us; 1024
	Inflight        int           // unacknowledged publishes we have with a client; 1024
	TopicAliases    int           // a client may define, and we with a client; 32
	QueueMessages   int           // QoS 1 and 2 waiting for a client; 100 000
	QueueBytes      int           // payloads and topics of these; 64 MiB
	OutboxBytes     int           // written by us and not yet taken by a client's socket, beyond which QoS 0 is dropped; 1 MiB
	Subscriptions   int           // per client; 10 000
	TopicLevels     int           // of a topic name or filter; 128
	Authentications int           // running at a time; 256
	RetainedBytes   int           // all together; 1 GiB
}

// A Waiting bounds the queue of one session. New messages that find no room are
// dropped and counted; its client stays connected.
type Waiting struct {
	Messages, Bytes int // as in [Limits], which hold where these are 0
	// Upgrade has messages wait, and be sent, with the QoS of the session's
	// subscription though they were published with less.
	Upgrade bool
}

// MarkProperty is the user property of CONNECT and CONNACK in which bridges of
// messages name themselves.
const MarkProperty = "aibridge-link"

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	wait := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	wait(&l.ConnectTimeout, 10*time.Second)
	wait(&l.EntryTimeout, 25*time.Second)
	wait(&l.WriteTimeout, time.Minute)
	wait(&l.SessionExpiry, 7*24*time.Hour)
	set(&l.ReceiveMaximum, 1024)
	set(&l.Inflight, 1024)
	set(&l.TopicAliases, 32)
	set(&l.QueueMessages, 100_000)
	set(&l.QueueBytes, 64<<20)
	set(&l.OutboxBytes, 1<<20)
	set(&l.Subscriptions, 10_000)
	set(&l.TopicLevels, 128)
	set(&l.Authentications, 256)
	set(&l.RetainedBytes, 1<<30)
	l.ReceiveMaximum = min(l.ReceiveMaximum, 65535)
	l.Inflight = min(l.Inflight, 65535)
	l.TopicAliases = min(l.TopicAliases, 65535)
	return l
}

const defaultMaxPacket = 1<<20 + 64<<10

func (o Options) check() (Options, error) {
	if o.Authenticate == nil || o.Permissions == nil {
		return o, errors.New("broker: Authenticate and Permissions are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxPacket == 0 {
		o.MaxPacket = defaultMaxPacket
	}
	if o.MaxPacket < 0 || o.MaxPacket > packet.MaxRemaining {
		return o, fmt.Errorf("broker: MaxPacket %d is out of range", o.MaxPacket)
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.SysInterval == 0 {
		o.SysInterval = 10 * time.Second
	}
	if o.checkpointAfter == 0 {
		o.checkpointAfter = checkpointAfter
	}
	if o.linger == 0 {
		o.linger = lingerTime
	}
	o.Limits = o.Limits.withDefaults()
	return o, nil
}

// A Method is one way of enhanced authentication (MQTT 5 §4.12). Start begins
// an exchange for a client, on CONNECT and again when it re-authenticates.
type Method interface {
	Start(ctx context.Context, shown Credentials) (Exchange, error)
}

// An Exchange answers the authentication data of the client step by step.
// With done the client is authenticated and answer, if any, goes into the
// CONNACK or the last AUTH; otherwise it goes into an AUTH. An error refuses.
type Exchange interface {
	Next(ctx context.Context, data []byte) (answer []byte, done *Identity, err error)
}
