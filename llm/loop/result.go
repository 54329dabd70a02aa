package loop

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// message returns the tool message with a result.
func message(r *tools.Result) chat.Message {
	m := chat.Message{Role: chat.ToolRole, ToolCallID: r.CallID, ToolName: r.Name, Failed: r.Status != tools.Success}
	if pieces := r.InOrder(); len(pieces) > 0 && len(r.Output.Segments) > 0 {
		m.Segments = inOrder(pieces)
		return m
	}
	m.Segments = append(m.Segments, chat.Segment{Type: chat.Text, Text: r.Text})
	for _, s := range r.Output.Segments {
		if s.Type == chat.Image || s.Type == chat.Audio || s.Type == chat.Video {
			m.Segments = append(m.Segments, s)
		}
	}
	return m
}

// inOrder converts pieces to the segments of a message. There is always a text, since
// some providers require one.
func inOrder(pieces []tools.Piece) (segments []chat.Segment) {
	texts := 0
	for i := range pieces {
		if media, ok := pieces[i].Media(); ok {
			segments = append(segments, media)
			continue
		}
		texts++
		segments = append(segments, chat.Segment{Type: chat.Text, Text: pieces[i].Read()})
	}
	if texts == 0 {
		segments = append([]chat.Segment{{Type: chat.Text, Text: "(media)"}}, segments...)
	}
	return segments
}

// maxReported is the longest text of a result in a report. The model has read all of
// it; readers of a report look for the error.
const maxReported = 2000

// maxArguments bounds the arguments in a report, in bytes.
const maxArguments = 8 << 10

// Report returns the report of a result for callers.
func Report(r *tools.Result) ToolReport {
	told := ToolReport{
		CallID: r.CallID, Name: r.Name, Arguments: reported(r.Arguments), Status: string(r.Status), Text: shortened(r.Text), Warning: r.Warning,
		ElapsedMS: float64(r.Elapsed.Microseconds()) / 1000,
	}
	if r.Err != nil {
		told.Code = protocol.CodeOf(r.Err)
	}
	return told
}

// reported returns the arguments of a call for a report. Arguments that are too
// long become a string of their beginning.
func reported(arguments json.RawMessage) json.RawMessage {
	if len(arguments) <= maxArguments {
		return arguments
	}
	return protocol.AppendString(nil, shortened(strings.ToValidUTF8(string(arguments[:maxArguments]), "")))
}

func shortened(text string) string {
	if runes := []rune(text); len(runes) > maxReported {
		return string(runes[:maxReported-1]) + "…"
	}
	return text
}

func joined(list []string) string { return strings.Join(list, "\n") }

func compactJSON(into *bytes.Buffer, raw json.RawMessage) error { return json.Compact(into, raw) }

func plus(a, b chat.Usage) chat.Usage {
	a.Estimated = a.Estimated || b.Estimated
	a.Input += b.Input
	a.Output += b.Output
	a.Cached += b.Cached
	a.CacheWrite += b.CacheWrite
	a.Reasoning += b.Reasoning
	return a
}

type metrics struct {
	turns  *prometheus.CounterVec
	rounds prometheus.Histogram
	calls  *prometheus.CounterVec
	took   *prometheus.HistogramVec // by the conventions of OpenTelemetry
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_llm_loops_total", Help: "Answers of models that may use tools, by why they ended: done, a limit, error.",
		}, []string{"stop"}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aibridge_llm_loop_rounds", Help: "How often a model was asked for one such answer.", Buckets: []float64{1, 2, 3, 5, 8, 10, 20, 50},
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_llm_tool_calls_total", Help: "Calls of tools by models, by outcome.",
		}, []string{"status"}),
		took: semconv.Seconds("gen_ai_invoke_agent_duration_seconds", "Time of answers of models that may use tools, by OpenTelemetry's conventions.", "error_type"),
	}
	if r != nil {
		r.MustRegister(m.turns, m.rounds, m.calls, m.took)
	}
	return m
}

func (m *metrics) done(use ToolUse, err error) {
	stop := use.Stop
	switch {
	case err != nil:
		stop = "error"
	case stop == "":
		stop = "done"
	}
	m.turns.WithLabelValues(stop).Inc()
	m.rounds.Observe(float64(use.Rounds))
	for _, c := range use.Calls {
		m.calls.WithLabelValues(c.Status).Inc()
	}
}
