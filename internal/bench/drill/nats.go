package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A NATSServer is the definition of one server of a cluster: as JSON, the argument of
// the command in [Options].
type NATSServer struct {
	Name   string   `json:"name"`
	Host   string   `json:"host"` // a loopback address
	Port   int      `json:"port"` // for clients
	Route  int      `json:"route"`
	Health int      `json:"health"` // of HTTP
	Dir    string   `json:"dir"`
	Routes []string `json:"routes"` // host:port of all
}

// ServeNATS serves as one of the NATS servers of a drill until the context ends.
func ServeNATS(ctx context.Context, definition string) error {
	var s NATSServer
	if err := json.Unmarshal([]byte(definition), &s); err != nil {
		return fmt.Errorf("drill: definition of a NATS server: %w", err)
	}
	var routes []*url.URL
	for _, host := range s.Routes {
		routes = append(routes, &url.URL{Scheme: "nats", Host: host})
	}
	options := &server.Options{
		ServerName: s.Name, Host: s.Host, Port: s.Port, HTTPHost: s.Host, HTTPPort: s.Health, NoSigs: true,
		JetStream: true, StoreDir: filepath.Join(s.Dir, "jetstream"), MaxPayload: 8 << 20,
		LogFile: filepath.Join(s.Dir, "nats.log"),
	}
	if len(routes) > 1 { // a single server would wait for an election
		options.Routes = routes
		// Clients know the servers by their proxies alone.
		options.Cluster = server.ClusterOpts{Name: "drill", Host: s.Host, Port: s.Route, NoAdvertise: true}
	}
	srv, err := server.NewServer(options)
	if err != nil {
		return err
	}
	srv.ConfigureLogger()
	srv.Start()
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

// healthy returns an error unless a server reports that its data is current.
func (s NATSServer) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/healthz", s.Host, s.Health), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s does not answer", s.Name)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("%s is not healthy: %s", s.Name, said)
	}
	return nil
}

// leaderOf is the name of the server that leads most of the streams, "" if that is
// unknown.
func leaderOf(ctx context.Context, urls string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := nats.Connect(urls, nats.Timeout(5*time.Second))
	if err != nil {
		return ""
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return ""
	}
	leads, best := make(map[string]int), ""
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		if info.Cluster == nil {
			continue
		}
		leader := info.Cluster.Leader
		if leads[leader]++; leads[leader] > leads[best] {
			best = leader
		}
	}
	return best
}
