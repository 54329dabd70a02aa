package telemetry

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/aibridge/aibridge/internal/telemetry/collectortest"
)

func status(code int, header, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

func TestSpansReachTheCollector(t *testing.T) {
	f := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, tenant = home")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")
	tracer, flush, err := NewTracer(t.Context(), Settings{OTLP: f.URL}, "b1", "1.0")
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "skill.invoke")
	span.End()
	if err := flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.Spans()) != 1 || f.Spans()[0].Name != "skill.invoke" {
		t.Errorf("spans %q", f.Spans())
	}
	r := f.Requests()[0]
	if r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Tenant") != "home" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
}

func TestABusyCollectorIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		tries  int
		least  time.Duration
		err    string
	}{
		"busy":             {status(429, "7", ""), 2, 7 * time.Second, ""},
		"away":             {status(503, "", ""), 2, firstPause / 2, ""},
		"away for long":    {status(503, "3000", ""), 1, 0, "given up"},
		"it does not want": {status(400, "", "too old"), 1, 0, "400 Bad Request: too old"},
		"it takes a part":  {status(200, "", "\x0a\x07\x08\x02\x12\x03old"), 1, 0, "refused 2 spans: old"},
		"an odd answer":    {status(200, "", "\xff\xff"), 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := collectortest.New(t, c.answer)
			sender, err := newCollector(f.URL + "/own/path")
			if err != nil {
				t.Fatal(err)
			}
			var waited time.Duration
			sender.pause = func(_ context.Context, d time.Duration) { waited += d }
			err = sender.UploadTraces(t.Context(), []*tracepb.ResourceSpans{{}})
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if len(f.Requests()) != c.tries || waited < c.least || f.Requests()[0].URL.Path != "/own/path" {
				t.Errorf("%d tries, waited %v", len(f.Requests()), waited)
			}
		})
	}
}

func TestStoppingEndsWhatIsSent(t *testing.T) {
	f := collectortest.New(t, status(503, "", ""), status(503, "", ""))
	sender, err := newCollector(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	sender.pause = func(context.Context, time.Duration) { _ = sender.Stop(t.Context()) }
	if err := sender.UploadTraces(t.Context(), nil); err == nil {
		t.Error("it says that all was sent")
	}
}

func TestWrongVariablesAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
		"OTEL_EXPORTER_OTLP_HEADERS": "secret", "OTEL_EXPORTER_OTLP_CERTIFICATE": "none.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "none.key",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := newCollector("http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
		})
	}
	for _, bad := range []string{"", "collector:4318", "ftp://x", "http://"} {
		if _, err := newCollector(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzAnswersOfCollectors(f *testing.F) {
	f.Add([]byte("\x0a\x07\x08\x02\x12\x03old"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = refused(b) // whatever it is, it ends
	})
}
