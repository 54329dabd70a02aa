package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cluster is the NATS servers and bridges of a drill.
type cluster struct {
	options *Options
	host    string // a loopback address of the drill's own
	nats    []*natsNode
	bridges []*bridgeNode
	http    *http.Client
	model   *http.Server // that the bridges ask
}

type natsNode struct {
	NATSServer
	*process
}

type bridgeNode struct {
	endpoint
	*process
	data    string
	route   string  // address of its NATS server for those of other bridges
	links   []*link // to each NATS server
	earlier bool    // it runs the earlier version
}

// newCluster prepares everything and starts the NATS servers and bridges.
func newCluster(ctx context.Context, o *Options, record *recorder) (*cluster, error) {
	c := &cluster{
		options: o,
		http:    &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: -1, DisableKeepAlives: true}},
		// No other program takes a port of this address meanwhile.
		host: fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254)),
	}
	if err := c.serveModel(record); err != nil {
		return c, err
	}
	prepare := c.prepareNATS
	if o.Formed {
		prepare = c.makeKey
	}
	if err := prepare(); err != nil {
		return c, err
	}
	if err := c.prepareBridges(); err != nil {
		return c, err
	}
	for _, b := range c.bridges {
		b.gaveUp = func() { record.add(Event{Kind: GaveUp, Node: b.name()}) }
	}
	for _, n := range c.nats {
		if err := n.start(); err != nil {
			return c, err
		}
	}
	if err := c.until(ctx, "all NATS servers are well", c.natsHealthy); err != nil {
		return c, err
	}
	return c, c.startBridges(ctx)
}

// serveModel has a model answer bridges.
func (c *cluster) serveModel(record *recorder) error {
	l, err := net.Listen("tcp", net.JoinHostPort(c.host, "0"))
	if err != nil {
		return err
	}
	c.model = &http.Server{Addr: l.Addr().String(), Handler: newModel(record), ReadHeaderTimeout: time.Minute}
	go func() { _ = c.model.Serve(l) }() // until close
	return nil
}

func (c *cluster) prepareNATS() error {
	ports, err := freePorts(c.host, 3*c.options.Servers)
	if err != nil {
		return err
	}
	var routes []string
	for i := range c.options.Servers {
		routes = append(routes, net.JoinHostPort(c.host, strconv.Itoa(ports[3*i+1])))
	}
	for i := range c.options.Servers {
		name := fmt.Sprintf("nats-%d", i+1)
		s := NATSServer{
			Name: name, Host: c.host, Port: ports[3*i], Route: ports[3*i+1], Health: ports[3*i+2],
			Dir: filepath.Join(c.options.Dir, name), Routes: routes,
		}
		definition, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return err
		}
		argv := append(slices.Clone(c.options.NATS), string(definition))
		c.nats = append(c.nats, &natsNode{NATSServer: s, process: &process{name: name, dir: s.Dir, argv: argv}})
	}
	return nil
}

// makeKey makes the key of the cluster that the bridges form.
func (c *cluster) makeKey() error {
	argv := append(slices.Clone(c.options.Key), c.key())
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("make the key of the cluster: %w: %s", err, out)
	}
	return nil
}

func (c *cluster) key() string { return filepath.Join(c.options.Dir, "cluster.key") }

func (c *cluster) prepareBridges() error {
	const each = 5
	ports, err := freePorts(c.host, each*c.options.Bridges)
	if err != nil {
		return err
	}
	for i := range c.options.Bridges {
		name := fmt.Sprintf("bridge-%d", i+1)
		at := func(n int) string { return net.JoinHostPort(c.host, strconv.Itoa(ports[each*i+n])) }
		b := &bridgeNode{
			endpoint: endpoint{name: name, mqtt: at(0), http: at(1)},
			data:     filepath.Join(c.options.Dir, name),
			route:    at(4),
		}
		c.bridges = append(c.bridges, b)
		if err := os.MkdirAll(b.data, 0o700); err != nil {
			return err
		}
		if err := b.link(c); err != nil {
			return err
		}
		b.process = &process{name: name, dir: b.data, argv: []string{"--ws", at(2), "--mqtts", at(3)}}
	}
	for i, b := range c.bridges {
		b.argv = append(c.flags(b, i+1), b.argv...)
		b.change(c.options)
	}
	return nil
}

// link gives a bridge a way of its own to each NATS server.
func (b *bridgeNode) link(c *cluster) error {
	for _, n := range c.nats {
		l, err := newLink(c.host, net.JoinHostPort(n.Host, strconv.Itoa(n.Port)))
		if err != nil {
			return err
		}
		b.links = append(b.links, l)
	}
	return nil
}

// flags are the command line of a bridge, but for its further addresses.
func (c *cluster) flags(b *bridgeNode, number int) []string {
	argv := append(slices.Clone(c.options.Bridge),
		"--dev", "--id", b.endpoint.name, "--data", b.data, "--mqtt", b.mqtt, "--http", b.http,
		"--drain-seconds", "2", "--cluster-drain-window-seconds", "1")
	argv = append(argv, "--llm-base-url", "http://"+c.model.Addr+"/v1", "--llm-model", "drill")
	argv = append(argv, c.stateFlags(b)...)
	if c.options.Mode == Many {
		argv = append(argv, "--cluster-working", "all", "--vfs-store", "nats")
	}
	for _, flag := range c.options.Flags {
		argv = append(argv, strings.ReplaceAll(flag, "{n}", strconv.Itoa(number)))
	}
	return argv
}

// stateFlags are the flags of a bridge for the place of its state.
func (c *cluster) stateFlags(b *bridgeNode) []string {
	if !c.options.Formed {
		var urls []string
		for _, l := range b.links {
			urls = append(urls, "nats://"+l.address())
		}
		return []string{"--nats-url", strings.Join(urls, ","), "--nats-replicas", strconv.Itoa(c.options.Servers)}
	}
	var members []string
	for _, member := range c.bridges[:3] {
		members = append(members, member.route)
	}
	return []string{"--cluster-key", c.key(), "--cluster-listen", b.route, "--cluster-join", strings.Join(members, ",")}
}

// startBridges starts the bridges: all at once if they form the cluster, and else the
// first one before the others, which get copies of its secrets.
func (c *cluster) startBridges(ctx context.Context) error {
	if c.options.Formed {
		for _, b := range c.bridges {
			if err := b.start(); err != nil {
				return err
			}
		}
		return c.until(ctx, "all bridges are up", c.bridgesHealthy)
	}
	first := c.bridges[0]
	if err := first.start(); err != nil {
		return err
	}
	if err := c.until(ctx, "the first bridge is ready", func(ctx context.Context) error { return c.ready(ctx, first) }); err != nil {
		return fmt.Errorf("%w; it said: %s", err, first.lastWords())
	}
	for _, b := range c.bridges[1:] {
		for _, secret := range secrets {
			err := copyFile(filepath.Join(b.data, secret), filepath.Join(first.data, secret))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := b.start(); err != nil {
			return err
		}
	}
	return c.until(ctx, "all bridges are up", c.bridgesHealthy)
}

// secrets are the files that the bridges of a cluster have in common.
var secrets = []string{"pepper", "ca.key", "ca.pem", "seal.key", "audit.key", "cluster.key"}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// close ends everything.
func (c *cluster) close() {
	for _, b := range c.bridges {
		if b.process != nil {
			b.kill()
		}
		for _, l := range b.links {
			l.close()
		}
	}
	for _, n := range c.nats {
		n.kill()
	}
	if c.model != nil {
		_ = c.model.Close()
	}
}

// until waits until a condition holds, for as long as the drill is patient.
func (c *cluster) until(ctx context.Context, what string, condition func(context.Context) error) error {
	deadline := time.Now().Add(c.options.Patience)
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("never: %s: %w", what, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (c *cluster) natsHealthy(ctx context.Context) error {
	for _, n := range c.nats {
		if err := n.healthy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bridgesHealthy returns an error unless every bridge is ready, or stands by in the
// mode that requires it.
func (c *cluster) bridgesHealthy(ctx context.Context) error {
	serving := 0
	for _, b := range c.bridges {
		switch status, body, err := c.ask(ctx, b, "/readyz"); {
		case err != nil:
			return fmt.Errorf("%s does not answer", b.name())
		case status == http.StatusOK:
			serving++
		case c.options.Mode == Standby && strings.Contains(body, "standby"):
		default:
			return fmt.Errorf("%s is not ready: %s", b.name(), body)
		}
	}
	if serving == 0 || c.options.Mode == Many && serving < len(c.bridges) {
		return fmt.Errorf("%d of %d bridges serve", serving, len(c.bridges))
	}
	return nil
}

func (b *bridgeNode) name() string { return b.endpoint.name }

func (c *cluster) ready(ctx context.Context, b *bridgeNode) error {
	status, body, err := c.ask(ctx, b, "/readyz")
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// ask gets a path from a bridge.
func (c *cluster) ask(ctx context.Context, b *bridgeNode, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.http+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return response.StatusCode, string(text), err
}

// serving are the bridges that are ready.
func (c *cluster) serving(ctx context.Context) (list []*bridgeNode) {
	for _, b := range c.bridges {
		if c.ready(ctx, b) == nil {
			list = append(list, b)
		}
	}
	return list
}

// endpoints are the addresses of the bridges.
func (c *cluster) endpoints() []endpoint {
	var list []endpoint
	for _, b := range c.bridges {
		list = append(list, b.endpoint)
	}
	return list
}

// freePorts returns free ports of a host, below the range from which the system assigns
// ports.
func freePorts(host string, n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			if tries > 100*n {
				return nil, err
			}
			continue
		}
		_ = l.Close()
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
