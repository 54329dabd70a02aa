package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/connect"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/internal/telemetry"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/servertls"
	"github.com/aibridge/aibridge/security/token"
)

// keptTables are the tables of the copy with credentials and rights. All others are
// emptied: the copy could go on with the work in them.
var keptTables = []string{"cert", "cert-authority", "cert-request", "datakey", "key", "keyuse", "masterkey", "pepper", "policy", "policy-trial", "revocation"}

// emptiedTables are the others.
var emptiedTables = []string{
	"a2aagent", "a2acard", "agent", "announcer", "approval", "approvaltold", "auditchain", "batch", "cap", "cert-token", "chat", "data", "davlock", "delayed", "dispatch", "effect", "estate", "exclusive", "group", "link", "llmloan", "llmspending", "llmspent",
	"masterholder", "mcpserver", "namespace", "parked", "queued", "resource", "rollout", "rollout-part", "run", "runpackage", "scene", "skill", "skill-join", "skill-name", "state", "task", "vfsfile",
	"vfsgroup", "vfsremote",
}

// anyPort has the system choose.
const anyPort = "127.0.0.1:0"

// isolated is a configuration for a copy of the state in a folder: with nothing
// that leads out of this process, and a model at an address of the process's own.
func isolated(c config.Config, folder, modelURL string) config.Config {
	c.Data = folder
	c.NATS, c.Cluster = natsd.Settings{Replicas: 1}, cluster.DefaultSettings()
	c.MQTT.Address, c.MQTT.Unix, c.MQTTS, c.HTTP, c.WS = anyPort, "", "off", anyPort, anyPort
	c.Doors, c.ProxyProtocol, c.TLS = config.Doors{}, listen.Proxies{}, servertls.Settings{}
	c.Tokens, c.Passwords, c.Telemetry = token.Settings{}, password.DefaultSettings(), telemetry.Settings{}
	c.Connect, c.Backup = connect.DefaultSettings(), backup.DefaultSettings()
	c.LLM = model.DefaultSettings()
	c.LLM.BaseURL, c.LLM.Model = modelURL, modelName
	c.Approvals.Webhooks, c.Approvals.Mail = nil, approval.MailSettings{}
	c.MCP.Servers, c.MCP.Devices, c.MCP.MQTT, c.MCP.Suggestions = nil, servers.DeviceSettings{}, "", nil
	c.Runs.Folders, c.Links, c.Schemas, c.Queues, c.Sites = nil, nil, nil, nil, site.Settings{}
	c.A2A.On, c.A2A.URL, c.A2A.Push, c.A2A.Remote, c.A2A.MQTT = false, "", false, false, ""
	c.VFS.Dir, c.VFS.Store = "", "auto"
	c.Skills.AllowPrivate = true // the devices are on loopback
	c.Drain, c.Log.Level = 1, "error"
	return c
}

// restore fills a folder with a copy of the state. It reports whether the key of
// the audit trail is there, without which the trail cannot be verified.
func restore(ctx context.Context, copied config.Config, archive io.Reader, original string) (trail bool, err error) {
	if _, err := storage.Restore(ctx, copied, archive, false); err != nil {
		return false, fmt.Errorf("restore the copy: %w", err)
	}
	if err := storage.Keep(ctx, copied, func(name string) bool { return slices.Contains(keptTables, name) }, slices.Concat(keptTables, emptiedTables)); err != nil {
		return false, fmt.Errorf("empty the copy: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(original, storage.TrailKey))
	switch {
	case original == "", errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, os.WriteFile(filepath.Join(copied.Data, storage.TrailKey), key, 0o600)
}
