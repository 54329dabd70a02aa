package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A collector is sent spans by OTLP over HTTP, in protobuf
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp). It is our own because the
// library's exporter brings gRPC into the binary, which it never speaks.
type collector struct {
	url     string
	headers map[string]string
	gzip    bool
	client  *http.Client
	stopped context.Context // ends when nothing more is to be sent
	stop    context.CancelFunc
	pause   func(ctx context.Context, d time.Duration) // between tries
}

const (
	tracesPath = "/v1/traces"
	sendTime   = 10 * time.Second // for one try
	firstPause = 5 * time.Second  // doubled each time
	mostPause  = 30 * time.Second
	tryTime    = time.Minute // after which spans are given up
	mostAnswer = 64 << 10
)

// variable is an exporter's variable, the one for traces first.
func variable(name string) (value, from string) {
	for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := strings.TrimSpace(os.Getenv(from)); value != "" {
			return value, from
		}
	}
	return "", ""
}

// newCollector reads the variables of OTLP exporters
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter/) except for the
// endpoint, which is a setting. Its errors name the variable.
func newCollector(endpoint string) (*collector, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https address", endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	c := &collector{url: u.String(), pause: pause}
	if protocol, from := variable("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("%s: %q is not spoken, only http/protobuf", from, protocol)
	}
	compression, from := variable("COMPRESSION")
	if c.gzip = compression == "gzip"; !c.gzip && compression != "" && compression != "none" {
		return nil, fmt.Errorf("%s: %q is neither gzip nor none", from, compression)
	}
	if c.headers, err = headers(); err != nil {
		return nil, err
	}
	timeout := sendTime
	if text, from := variable("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s: %q is not a number of milliseconds", from, text)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = clientTLS(); err != nil {
		return nil, err
	}
	c.client = &http.Client{Transport: transport, Timeout: timeout}
	c.stopped, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// headers are pairs such as "authorization=Bearer%20x,tenant=home".
func headers() (map[string]string, error) {
	text, from := variable("HEADERS")
	all := make(map[string]string)
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%s: a header is not NAME=VALUE", from) // it may be a credential
		}
		all[name] = value
	}
	return all, nil
}

// clientTLS has the roots and the own certificate that variables name, nil if none do.
func clientTLS() (*tls.Config, error) {
	roots, rootsFrom := variable("CERTIFICATE")
	cert, certFrom := variable("CLIENT_CERTIFICATE")
	key, keyFrom := variable("CLIENT_KEY")
	if roots == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		text, err := os.ReadFile(roots)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rootsFrom, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: the file has no certificate", rootsFrom)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(certFrom, keyFrom), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Start has nothing to do: connections are made when spans are sent.
func (c *collector) Start(context.Context) error { return nil }

// Stop ends transmissions under way.
func (c *collector) Stop(context.Context) error {
	c.stop()
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, again for up to a minute if the collector is busy or
// away.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The request has the same encoding, but comes with its gRPC service.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		body = compressed(body)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	end := time.Now().Add(tryTime)
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		again, err := c.send(ctx, body)
		if err == nil || again < 0 || ctx.Err() != nil {
			return err
		}
		delay := max(again, wait/2+rand.N(wait/2))
		if time.Now().Add(delay).After(end) {
			return fmt.Errorf("given up: %w", err)
		}
		c.pause(ctx, delay)
	}
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // memory takes everything
	_ = w.Close()
	return b.Bytes()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// send tries once. With an error it returns the least pause before the next try,
// less than 0 if there is to be none.
func (c *collector) send(ctx context.Context, body []byte) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "aibridge")
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return 0, withoutAddress(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch {
	case answer.StatusCode/100 == 2:
		return -1, refused(text)
	case err != nil:
		return 0, err
	}
	err = fmt.Errorf("the collector answers %s: %s", answer.Status, strings.TrimSpace(string(text[:min(len(text), 500)])))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(answer.Header.Get("Retry-After")), err
	}
	return -1, err
}

// withoutAddress leaves out the URL, which may have a credential.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// refused is the error of an answer of the collector that did not take all spans:
// ExportTraceServiceResponse.partial_success (1), with rejected_spans (1) and
// error_message (2).
func refused(answer []byte) error {
	var count uint64
	var why string
	fields(answer, func(number protowire.Number, _ uint64, partial []byte) {
		if number != 1 {
			return
		}
		fields(partial, func(number protowire.Number, n uint64, text []byte) {
			switch number {
			case 1:
				count = n
			case 2:
				why = string(text)
			}
		})
	})
	if count == 0 && why == "" {
		return nil
	}
	return fmt.Errorf("the collector refused %d spans: %s", count, why)
}

// fields yields the fields of a message, as far as it is one.
func fields(b []byte, yield func(number protowire.Number, n uint64, b []byte)) {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		var n uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(number, kind, b)
		}
		if size < 0 {
			return
		}
		yield(number, n, text)
		b = b[size:]
	}
}
