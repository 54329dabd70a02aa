package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/keyfile"
)

// Files of the audit trail in the data folder. The key belongs where the
// record is not: whoever has both can forge it.
const (
	auditKeyFile  = "audit.key"
	auditHeadFile = "audit.head"
	// auditSpoolFiles are the entries that were taken and are not stored yet.
	auditSpoolFiles = "audit.spool"
)

// An auditSide is the audit trail and its way to the operators.
type auditSide struct {
	*audit.Trail
	broker atomic.Pointer[broker.Broker] // nil until there is one
}

// openAudit opens the audit trail. It is stopped after everything that
// records, and before the store.
func (a *App) openAudit(ctx context.Context) error {
	a.audit = new(auditSide)
	secret, err := keyfile.Secret(filepath.Join(a.config.Data, auditKeyFile), audit.KeySize)
	if err != nil {
		return fmt.Errorf("key of the audit trail: %w", err)
	}
	options, err := auditOptions(ctx, a.store, a.config, secret)
	if err != nil {
		return err
	}
	topics := protocol.NewTopics(a.config.Root)
	options.Publish = func(e audit.Entry) { a.publishSecurity(topics.Event("security"), e) }
	options.Open = func(sealed []byte) (json.RawMessage, error) { return a.seals.Open(sealed, argumentsPurpose) }
	options.Logger, options.Registerer = a.log, a.metrics
	a.audit.Trail, err = audit.Open(ctx, options)
	if err != nil {
		return err
	}
	a.life.add("audit", a.audit.Close)
	return nil
}

func auditOptions(ctx context.Context, s *store.Store, config Config, secret []byte) (audit.Options, error) {
	key, err := audit.NewKey(secret)
	if err != nil {
		return audit.Options{}, err
	}
	log, err := s.OpenAuditLog(ctx, config.ID)
	if err != nil {
		return audit.Options{}, err
	}
	return audit.Options{
		Log:      auditLog{log},
		Key:      key,
		HeadFile: filepath.Join(config.Data, auditHeadFile),
		Births:   auditBirths{store.NewTable[audit.Birth](s, "auditbirth").Essential(), config.ID},

		AcceptLoss: config.AcceptLoss,

		Spool: filepath.Join(config.Data, auditSpoolFiles),

		SyncAlways: config.Sync == "always",

		BridgeID: config.ID,
		Level:    audit.Level(config.Audit.Level),
		KeepFor:  time.Duration(config.Audit.KeepDays) * 24 * time.Hour,
		KeepSize: uint64(config.Audit.KeepMiB) << 20,
	}, nil
}

// auditor is what the router tells of calls; nil if nothing is recorded, which
// costs calls nothing.
func (a *App) auditor() commands.Auditor {
	if a.config.Audit.Level == string(audit.Off) {
		return nil
	}
	return a.audit
}

// publishSecurity tells operators of an entry, on the topic of security
// events.
func (a *App) publishSecurity(topic string, e audit.Entry) {
	mqtt := a.audit.broker.Load()
	if mqtt == nil { // starting
		return
	}
	e.Digest = ""
	data, err := json.Marshal(e)
	if err != nil {
		a.log.Warn("an event of security cannot be written as JSON", "event", e.Event, "error", err)
		return
	}
	event := protocol.Event{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: e.Time.UnixMilli(), Name: e.Event, Seq: e.Seq, Data: data,
		Metadata: protocol.Metadata{SenderID: a.config.ID, TraceID: e.TraceID},
	}
	if _, err := mqtt.Publish(listenersTo(e), protocol.Message{Topic: topic, Payload: event.Append(nil), ContentType: protocol.ContentJSON}); err != nil {
		a.log.Warn("an event of security is not published", "event", e.Event, "error", err)
	}
}

// listenersTo are who may hear of an entry: those of the space of who did it.
func listenersTo(e audit.Entry) protocol.Recipients {
	switch {
	case e.Principal == "":
		return protocol.Administrators()
	case e.Space == "":
		return protocol.Everybody(protocol.DefaultSpace)
	}
	return protocol.Everybody(e.Space)
}

// auditLog is the store's log as package audit wants it.
type auditLog struct{ *store.AuditLog }

// Bounds implements [audit.Log].
func (l auditLog) Bounds(ctx context.Context) (audit.Bounds, error) {
	b, err := l.AuditLog.Bounds(ctx)
	return audit.Bounds(b), err
}

// auditBirths keep the birth of a bridge's trail in the registry.
type auditBirths struct {
	table  *store.Table[audit.Birth]
	bridge string
}

// Birth implements [audit.Births]. The registry need not be loaded.
func (b auditBirths) Birth(ctx context.Context) (*audit.Birth, error) {
	return b.table.Peek(ctx, b.bridge)
}

// SetBirth implements [audit.Births].
func (b auditBirths) SetBirth(ctx context.Context, birth audit.Birth) error {
	_, err := b.table.Put(ctx, b.bridge, &birth)
	return err
}

// VerifyAudit checks the audit trail in the data folder of a bridge that is
// not running. Head is what an earlier verification ended with, "" for nothing.
func VerifyAudit(ctx context.Context, config Config, head string) (report audit.Report, err error) {
	var noted audit.Head
	if head != "" {
		if noted, err = audit.ParseHead(head); err != nil {
			return report, err
		}
	}
	secret, err := os.ReadFile(filepath.Join(config.Data, auditKeyFile))
	if err != nil {
		return report, fmt.Errorf("key of the audit trail: %w", err)
	}
	err = withStore(ctx, config, func(s *store.Store) error {
		options, err := auditOptions(ctx, s, config, secret)
		if err != nil {
			return err
		}
		report, err = audit.VerifyLog(ctx, options, noted)
		return err
	})
	return report, err
}
