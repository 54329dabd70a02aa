package protocol_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkReaders justifies the scanner: it does to a request of 500 bytes what
// the library would do in its place. "check" is the strict check alone; "decode"
// finds the fields as well.
func BenchmarkReaders(b *testing.B) {
	reader := bytes.NewReader(nil)
	decoder := jsontext.NewDecoder(reader)
	for _, bench := range []struct {
		name string
		run  func() error
	}{
		{"check/scanner", func() error { return protocol.CheckJSON(invocation, protocol.Limits{}) }},
		{"check/library", func() error {
			reader.Reset(invocation)
			decoder.Reset(reader)
			if err := decoder.SkipValue(); err != nil {
				return err
			}
			if _, err := decoder.ReadToken(); err != io.EOF {
				return err
			}
			return nil
		}},
		{"decode/scanner", func() error {
			_, err := protocol.DecodeRequest(invocation, protocol.Limits{})
			return err
		}},
		{"decode/library", func() error {
			var request struct {
				Version   string         `json:"version"`
				ID        string         `json:"id"`
				Timestamp int64          `json:"timestamp"`
				Type      string         `json:"type"`
				Command   string         `json:"command"`
				Params    jsontext.Value `json:"params"`
				Metadata  struct {
					Sender   string `json:"sender_id"`
					Trace    string `json:"trace_id"`
					Priority string `json:"priority"`
					Timeout  int64  `json:"timeout"`
				} `json:"metadata"`
			}
			return json.Unmarshal(invocation, &request)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(invocation)))
			for b.Loop() {
				if err := bench.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
