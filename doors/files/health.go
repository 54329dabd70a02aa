package files

import (
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// HealthResult is the answer of /vfs/health, in the form that docs/vfs.md#http
// shows, and the same in bytes.
type HealthResult struct {
	Status    string        `json:"status"`
	Version   string        `json:"version"`
	Timestamp int64         `json:"timestamp"`
	Details   HealthDetails `json:"details"`
}

// HealthDetails show the room of the VFS.
type HealthDetails struct {
	Used        string `json:"storage_used"`
	Total       string `json:"storage_total"`
	UsedBytes   int64  `json:"storage_used_bytes"`
	TotalBytes  int64  `json:"storage_total_bytes"` // 0 if that is unknown
	Connections int64  `json:"connections"`         // transfers under way; told to administrators
}

// health shows the state of the bridge's own VFS.
func (h *Handler) health(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	if err := h.Authorize(r.Context(), who, "vfs:health", commands.Resource{Type: "vfs", Space: who.Space}); err != nil {
		return err
	}
	usage, err := h.Service.Usage(r.Context(), who)
	result := HealthResult{
		Status: "healthy", Version: protocol.Version, Timestamp: h.Now().UnixMilli(),
		Details: HealthDetails{human(usage.Used), human(usage.Total), usage.Used, usage.Total, 0},
	}
	if who.Unbounded() { // they are those of all spaces
		result.Details.Connections = h.transfers.Used()
	}
	status := http.StatusOK
	if err != nil {
		result.Status, status = "unhealthy", http.StatusServiceUnavailable
	}
	return succeed(w, status, result)
}

// human is a number of bytes for people, "2.5GB".
func human(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KB", "MB", "GB", "TB", "PB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "B" {
		return strconv.FormatInt(n, 10) + unit
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + unit
}
