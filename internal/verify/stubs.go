package verify

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The made-up device, its skill and the model.
const (
	deviceID  = "verify-device"
	skillID   = "verify"
	modelName = "verify-model"
)

// A device answers requests of the bridge over HTTP, and counts them.
type device struct {
	server *httptest.Server

	mu    sync.Mutex
	calls map[string]int // by capability
}

func newDevice() *device {
	d := &device{calls: make(map[string]int)}
	d.server = httptest.NewServer(http.HandlerFunc(d.serve))
	return d
}

// count is the number of times that a capability was asked for.
func (d *device) count(capability string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[capability]
}

func (d *device) serve(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     string `json:"id"`
		Params struct {
			Capability string `json:"capability_id"`
		} `json:"params"`
	}
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q) != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.calls[q.Params.Capability]++
	n := d.calls[q.Params.Capability]
	d.mu.Unlock()
	if q.Params.Capability == vanishes {
		hangUp(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"version": protocol.Version, "id": q.ID, "timestamp": time.Now().UnixMilli(), "type": "response", "status": "success",
		"result": map[string]any{"times": n}, "error": nil, "metadata": map[string]any{},
	})
}

// hangUp ends the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	}
}

// newModel serves a model that calls the first tool it is offered, once, and
// then is content.
func newModel() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []struct {
				Role string `json:"role"`
			} `json:"messages"`
			Tools []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tools"`
		}
		_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&q)
		message, reason := map[string]any{"role": "assistant", "content": "Done."}, "stop"
		last := ""
		if len(q.Messages) > 0 {
			last = q.Messages[len(q.Messages)-1].Role
		}
		if len(q.Tools) > 0 && last != "tool" {
			reason = "tool_calls"
			message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": "call-1", "type": "function", "function": map[string]any{"name": q.Tools[0].Function.Name, "arguments": "{}"},
			}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "verify", "object": "chat.completion", "created": time.Now().Unix(), "model": modelName,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
	}))
}
