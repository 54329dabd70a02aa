package natsd

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/internal/membercert"
)

// MostMembers is the number of servers that keep the state at most. More would make each
// write wait for more disks; further bridges keep no copy.
const MostMembers = 5

// routeName is the name of every server of a cluster in its certificate: a holder
// of the cluster's key may be any of them.
const routeName = "member.cluster.aibridge"

// ClusterOptions configure a server that is embedded in this process and forms a
// cluster with those in other bridges.
type ClusterOptions struct {
	Dir       string   // for the files of this server; it is not the folder of a server that was alone
	Name      string   // of the cluster
	Node      string   // of the server, the same at every start
	Listen    string   // host:port for the routes of others
	Advertise string   // host:port where others reach it; Listen by default
	Members   []string // host:port of the servers that keep the state
	Key       []byte   // all servers of a cluster have the same
	AlsoKeys  [][]byte // of servers that are let in too, while the key is replaced
	Log       *slog.Logger
}

// Keeps reports whether this server is one of those that keep the state.
func (o *ClusterOptions) Keeps() bool { return slices.Contains(o.Members, o.address()) }

// serverName is the name of this server among those of the cluster.
func (o *ClusterOptions) serverName() string { return namePrefix + o.Node }

const namePrefix = "aibridge-"

// address is the address at which others reach this server.
func (o *ClusterOptions) address() string { return cmp.Or(o.Advertise, o.Listen) }

// ErrTwin says that two servers of a cluster have one name, or would have.
var ErrTwin = errors.New("two bridges of the cluster have one id")

// StartMember runs the server of a bridge in a cluster, whose connection serves as
// both state and flow. It does not wait for the others, [Server.Await] does. It
// fails with [ErrInUse] if another process has the directory open, and with [ErrTwin]
// beside a server of its name, which it would disturb.
func StartMember(o ClusterOptions) (*Server, error) {
	name := o.serverName()
	if err := twins(name, o.names(context.Background(), "")[name]); err != nil {
		return nil, err
	}
	return startMember(o)
}

func startMember(o ClusterOptions) (_ *Server, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	options, err := memberOptions(&o)
	if err != nil {
		return nil, fmt.Errorf("natsd: %w", err)
	}
	s := &Server{log: o.Log, failed: make(chan error, 1), members: &o}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsd: make the directory of the cluster: %w", err)
	}
	if s.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	i := &instance{name: "cluster", dir: o.Dir, log: newLogger(o.Log.With("nats", "cluster")), member: true, keeps: o.Keeps()}
	i.secret = nuid.Next()
	options.CustomClientAuthentication = pipesOnly{i}
	i.options = func() *server.Options { clone := *options; return &clone }
	s.embedded = []*instance{i}
	if err := i.start(); err != nil {
		return nil, err
	}
	s.state, s.flow = i.conn, i.conn
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.mending.Go(func() { s.mend(run, i) })
	return s, nil
}

// memberOptions are those of a server that has a port for routes, and none that
// clients can use: NATS starts no routes without one for clients, so it gets one on
// loopback, which admits this process alone.
func memberOptions(o *ClusterOptions) (*server.Options, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return nil, err
	}
	secure, err := membercert.TLS(o.Key, "routes", routeName, o.AlsoKeys...)
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: o.serverName(),
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		NoSigs:     true,

		Cluster: server.ClusterOpts{
			Name: o.Name, Host: host, Port: port, Advertise: o.address(),
			TLSConfig: secure, TLSTimeout: routeTimeout.Seconds(), AuthTimeout: routeTimeout.Seconds(),
			PingInterval: routePing, MaxPingsOut: 2, ConnectRetries: -1,
		},

		JetStream:              o.Keeps(),
		DisableJetStreamBanner: true,
		StoreDir:               o.Dir,
		JetStreamMaxStore:      noLimit,
		SyncAlways:             true,
		MaxPayload:             MaxPayload,
	}
	for _, member := range o.Members {
		if _, _, err := splitAddress(member); err != nil {
			return nil, err
		}
		if member != o.address() {
			options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: member})
		}
	}
	return options, nil
}

const (
	routeTimeout = 5 * time.Second // for a handshake
	routePing    = time.Second     // so that a frozen server is noticed within three
)

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 1<<16-1 {
		return "", 0, fmt.Errorf("%q is not host:port", address)
	}
	return host, port, nil
}

// pipesOnly lets connections of this process in, and no others. Those that have the
// secret of the server may look after the cluster.
type pipesOnly struct{ of *instance }

// systemUser is the user who looks after the cluster.
const systemUser = "aibridge-system"

// Check implements [server.Authentication].
func (p pipesOnly) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return true
	}
	if c.RemoteAddress() == nil || c.RemoteAddress().Network() != "pipe" {
		return false
	}
	if c.GetOpts().Username != systemUser {
		return true
	}
	account := p.of.systemAccount()
	if account == nil || c.GetOpts().Password != p.of.secret {
		return false
	}
	c.RegisterUser(&server.User{Username: systemUser, Account: account})
	return true
}

// systemAccount is the account of those who look after the cluster, nil while there is
// no server.
func (i *instance) systemAccount() *server.Account {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server == nil {
		return nil
	}
	return i.server.SystemAccount()
}

// system connects to the server to look after the cluster.
func (i *instance) system() (*nats.Conn, error) {
	return dial("", nats.Name("aibridge cluster"), nats.InProcessServer(i), nats.UserInfo(systemUser, i.secret), nats.NoReconnect())
}

const (
	askEvery   = time.Second
	askTimeout = time.Second
	maxInfo    = 64 << 10 // bytes of a server's INFO
)

// Await returns when the cluster answers, which takes more than half of the
// members, and at the very first start all of them. Meanwhile it calls waiting with
// the missing members. A server that is alone, or elsewhere, is not waited for.
func (s *Server) Await(ctx context.Context, waiting func(reason string)) error {
	if s.members == nil {
		return nil
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for told := ""; ; {
		if s.answers(ctx) {
			return nil
		}
		if reason := s.waitsFor(ctx); reason != told {
			told = reason
			waiting(reason)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answers reports whether a leader of the cluster does.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := s.state.RequestWithContext(ctx, "$JS.API.STREAM.NAMES", nil)
	return err == nil && !strings.Contains(string(answer.Data), `"error"`)
}

// waitsFor is the reason why the cluster does not answer.
func (s *Server) waitsFor(ctx context.Context) string {
	return cmp.Or(s.Away(ctx), "the servers of the cluster choose who leads")
}

// Away names the members that are not there, or are not of this cluster, "" for none.
func (s *Server) Away(ctx context.Context) string {
	if s.members == nil {
		return ""
	}
	var away []string
	for _, member := range s.members.Members {
		if member == s.members.address() {
			continue
		}
		if err := s.members.probe(ctx, member); err != nil {
			away = append(away, err.Error())
		}
	}
	if len(away) == 0 {
		return ""
	}
	return "this bridge waits for the others of its cluster: " + strings.Join(away, ", ")
}

// probe looks whether a member is there, has the key, and is of this cluster.
func (o *ClusterOptions) probe(ctx context.Context, member string) error {
	info, err := o.ask(ctx, member)
	if err == nil && info.Cluster != o.Name {
		err = fmt.Errorf("the bridge at %s is of the cluster %q", member, info.Cluster)
	}
	return err
}

// A memberInfo is the word of a server about itself.
type memberInfo struct {
	Cluster string `json:"cluster"`
	ID      string `json:"server_id"` // another one at each start
	Name    string `json:"server_name"`
}

// ask has a member say who it is.
func (o *ClusterOptions) ask(ctx context.Context, member string) (info memberInfo, err error) {
	secure, err := membercert.TLS(o.Key, "routes", routeName, o.AlsoKeys...)
	if err != nil {
		return info, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", member)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return info, fmt.Errorf("nobody answers at %s", member)
	case ctx.Err() != nil:
		return info, fmt.Errorf("%s is slow to answer", member)
	case err != nil:
		return info, fmt.Errorf("what answers at %s has not the key of this cluster", member)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	line, err := bufio.NewReaderSize(conn, maxInfo).ReadSlice('\n')
	text, isInfo := strings.CutPrefix(string(line), "INFO ")
	switch {
	case ctx.Err() != nil:
		return info, fmt.Errorf("%s is slow to answer", member)
	case err != nil || !isInfo || json.Unmarshal([]byte(text), &info) != nil:
		return info, fmt.Errorf("what answers at %s is no bridge of a cluster", member)
	}
	return info, nil
}

// names are the members by name: this one, and those that answer and have the key.
// Self is the id of this server, "" before it has started.
func (o *ClusterOptions) names(ctx context.Context, self string) map[string][]string {
	said := make([]memberInfo, len(o.Members))
	var asked sync.WaitGroup
	for i, member := range o.Members {
		if member != o.address() {
			asked.Go(func() { said[i], _ = o.ask(ctx, member) })
		}
	}
	asked.Wait()
	at := map[string][]string{o.serverName(): {o.address()}}
	for i, info := range said {
		if info.ID != "" && info.ID != self {
			at[info.Name] = append(at[info.Name], o.Members[i])
		}
	}
	return at
}

// twins fails with [ErrTwin] if several servers have a name.
func twins(name string, at []string) error {
	if len(at) < 2 {
		return nil
	}
	return fmt.Errorf("%w: %q is the id of those at %s; give each bridge an id of its own", ErrTwin, strings.TrimPrefix(name, namePrefix), strings.Join(at, " and "))
}

// Twins fails with [ErrTwin] if two members of the cluster have one name, as where both
// have started at once. The cluster does not work then.
func (s *Server) Twins(ctx context.Context) error {
	if s.members == nil {
		return nil
	}
	names := s.members.names(ctx, s.embedded[0].id())
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := twins(name, names[name]); err != nil {
			return err
		}
	}
	return nil
}

// id is the id of the server, another one at each start; "" while there is none.
func (i *instance) id() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server == nil {
		return ""
	}
	return i.server.ID()
}

// Isolated reports whether this server is one of a cluster and has lost the
// connection to the majority.
func (s *Server) Isolated() bool {
	if s.members == nil {
		return false
	}
	return s.embedded[0].isolated()
}

// isolated reports whether the server knows of no leader.
func (i *instance) isolated() bool {
	i.mu.Lock()
	srv := i.server
	i.mu.Unlock()
	switch {
	case srv == nil:
		return true
	case !i.keeps:
		return srv.NumRoutes() == 0
	}
	health := srv.Healthz(&server.HealthzOptions{JSMetaOnly: true, Details: true})
	return health.StatusCode != 200 && !busy(health) && slices.ContainsFunc(health.Errors, func(e server.HealthzError) bool {
		return strings.Contains(e.Error, "contact with a meta leader")
	})
}
